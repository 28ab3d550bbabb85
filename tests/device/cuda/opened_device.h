// OpenedDevice: a CUDA device that a test opens, whose memory and events are freed in order.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "engine/device/check.h"
#include "engine/device/open_plugin.h"
#include "tests/device/cuda/plugin_under_test.h"

namespace hawser::testing {

using device::StreamId;
inline constexpr StreamId kCompute = StreamId::kCompute, kCommunication = StreamId::kCommunication;

/// Expects the text to contain all parts.
inline void expect_says(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
}

class OpenedDevice {
 public:
  explicit OpenedDevice(int32_t index = 0, bool deterministic = true) {
    device::DeviceRequest request;
    request.index = index;
    request.deterministic = deterministic;
    device_ = device::open_device(plugin_under_test(), request);
  }
  ~OpenedDevice() {
    for (const auto& [memory, bytes] : on_device_) device_->release(memory, bytes);
    for (const auto& [memory, bytes] : on_host_) device_->release_host(memory, bytes);
    for (device::Event* event : events_) device_->free_event(event);
  }
  OpenedDevice(const OpenedDevice&) = delete;
  OpenedDevice& operator=(const OpenedDevice&) = delete;

  device::Device* operator->() const { return device_.get(); }
  device::Device& operator*() const { return *device_; }

  /// Expects the call to succeed.
  void ok(device::Status status) const { device::check(*device_, status); }

  template <class T>
  T* on_device(int64_t n) {
    void* memory = nullptr;
    ok(device_->allocate(n * static_cast<int64_t>(sizeof(T)), &memory));
    on_device_.emplace_back(memory, n * static_cast<int64_t>(sizeof(T)));
    return static_cast<T*>(memory);
  }
  template <class T>
  T* on_host(int64_t n) {
    void* memory = nullptr;
    ok(device_->allocate_host(n * static_cast<int64_t>(sizeof(T)), &memory));
    on_host_.emplace_back(memory, n * static_cast<int64_t>(sizeof(T)));
    return static_cast<T*>(memory);
  }
  device::Event* event() {
    device::Event* event = nullptr;
    ok(device_->make_event(&event));
    events_.push_back(event);
    return event;
  }

  /// Returns the contents once the stream has done its work.
  template <class T>
  std::vector<T> read(const T* from, int64_t n, StreamId on = kCompute) {
    std::vector<T> values(static_cast<size_t>(n));
    ok(device_->copy_to_host(values.data(), from, n * static_cast<int64_t>(sizeof(T)), on));
    ok(device_->synchronize(on));
    return values;
  }
  template <class T>
  void write(T* to, const std::vector<T>& values, StreamId on = kCompute) {
    ok(device_->copy_to_device(to, values.data(), static_cast<int64_t>(values.size() * sizeof(T)), on));
    ok(device_->synchronize(on));
  }

 private:
  std::shared_ptr<device::Device> device_;
  std::vector<std::pair<void*, int64_t>> on_device_, on_host_;
  std::vector<device::Event*> events_;
};

}  // namespace hawser::testing
