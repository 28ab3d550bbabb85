#include "engine/device/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "engine/base/error.h"
#include "engine/device/cpu/host_memory.h"

namespace hawser::device {
namespace {

constexpr Status kDone = 0;

class CpuDevice final : public Device {
 public:
  CpuDevice(const kernels::KernelTable& kernels, Stream& stream) : kernels_(kernels), stream_(stream) {}

  DeviceInfo info() const noexcept override {
    DeviceInfo info;
    info.name = "cpu";
    info.host_visible = true;
    return info;
  }
  const kernels::KernelTable& kernels() const noexcept override { return kernels_; }
  Stream& stream(StreamId) noexcept override { return stream_; }
  Status make_stream(StreamId* out) noexcept override {
    *out = StreamId::kCommunication;
    return kDone;
  }

  Status memory(int64_t* available, int64_t* total) noexcept override {
    *available = *total = available_memory();
    return kDone;
  }
  Status allocate(int64_t bytes, void** out) noexcept override {
    *out = map_memory(bytes);
    if (*out != nullptr) return kDone;
    return failed(Code::kOutOfMemory, "out of memory: the arena needs {} bytes, {} are available", bytes,
                  available_memory());
  }
  void release(void* memory, int64_t bytes) noexcept override {
    unmap_memory(static_cast<char*>(memory), bytes);
  }
  Status allocate_host(int64_t bytes, void** out) noexcept override { return allocate(bytes, out); }
  void release_host(void* memory, int64_t bytes) noexcept override { release(memory, bytes); }

  Status copy_to_device(void* to, const void* host, int64_t bytes, StreamId) noexcept override {
    return copy(to, host, bytes);
  }
  Status copy_to_host(void* host, const void* from, int64_t bytes, StreamId) noexcept override {
    return copy(host, from, bytes);
  }
  Status copy_inside(void* to, const void* from, int64_t bytes, StreamId) noexcept override {
    return copy(to, from, bytes);
  }
  Status fill_zero(void* to, int64_t bytes, StreamId) noexcept override {
    std::memset(to, 0, static_cast<size_t>(bytes));
    return kDone;
  }

  // All work is done when its call returns, so waits do nothing, and an event needs no memory.
  Status make_event(Event** out) noexcept override {
    *out = reinterpret_cast<Event*>(this);
    return kDone;
  }
  void free_event(Event*) noexcept override {}
  Status record(Event*, StreamId) noexcept override { return kDone; }
  Status wait(Event*, StreamId) noexcept override { return kDone; }
  Status wait_on_host(Event*) noexcept override { return kDone; }
  Status synchronize(StreamId) noexcept override { return kDone; }
  Status elapsed(Event*, Event*, double*) noexcept override {
    return failed(Code::kUnimplemented, "the CPU's events take no times: work is done when its call returns");
  }

  const char* choices() noexcept override { return ""; }
  Status take_choices(const char*) noexcept override { return kDone; }

  Status begin_capture(StreamId) noexcept override { return no_capture(); }
  Status end_capture(StreamId, Graph** out) noexcept override {
    *out = nullptr;
    return no_capture();
  }
  Status launch(Graph*, StreamId) noexcept override { return no_capture(); }
  void free_graph(Graph*) noexcept override {}

  Status allocate_for_peers(int64_t, void** out) noexcept override {
    *out = nullptr;
    return failed(Code::kUnimplemented, "ranks on the CPU communicate through their comm");
  }
  void release_for_peers(void*, int64_t) noexcept override {}
  Status make_peer_link(const PeerLinkRequest&, PeerLink** out) noexcept override {
    *out = nullptr;
    return failed(Code::kUnimplemented, "ranks on the CPU communicate through their comm");
  }

  Status error() noexcept override { return kDone; }
  const char* message() const noexcept override { return message_; }
  void destroy() noexcept override { delete this; }

 private:
  static Status copy(void* to, const void* from, int64_t bytes) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return kDone;
  }
  template <typename... Args>
  Status failed(Code code, fmt::format_string<Args...> format, Args&&... args) noexcept {
    const size_t most = sizeof(message_) - 1;
    const auto size = fmt::format_to_n(message_, most, format, std::forward<Args>(args)...).size;
    message_[std::min(size, most)] = 0;
    return static_cast<Status>(code);
  }
  Status no_capture() { return failed(Code::kUnimplemented, "the CPU captures no work"); }

  const kernels::KernelTable& kernels_;
  Stream& stream_;
  char message_[160] = "";
};

}  // namespace

std::shared_ptr<Device> make_cpu_device(const kernels::KernelTable& kernels, Stream& stream) {
  return std::shared_ptr<Device>(new CpuDevice(kernels, stream), [](Device* d) { d->destroy(); });
}

}  // namespace hawser::device
