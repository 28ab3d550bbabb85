#include "engine/device/host_link.h"

#include <utility>

namespace hawser::device {
namespace {

constexpr StreamId kCompute = StreamId::kCompute;

}  // namespace

HostLink::HostLink(std::shared_ptr<Device> device)
    : device_(std::move(device)), in_place_(device_->info().host_visible) {
  if (!in_place_) check(*device_, device_->make_event(&sent_));
}

HostLink::~HostLink() {
  if (sent_ != nullptr) device_->free_event(sent_);
}

void HostLink::send(void* to, const void* host, int64_t bytes) {
  if (to == host) return;
  check(*device_, device_->copy_to_device(to, host, bytes, kCompute));
  if (!in_place_) check(*device_, device_->record(sent_, kCompute));
}

void HostLink::fetch(void* host, const void* from, int64_t bytes) {
  if (host != from) check(*device_, device_->copy_to_host(host, from, bytes, kCompute));
}

void HostLink::copy(void* to, const void* from, int64_t bytes) {
  if (to != from) check(*device_, device_->copy_inside(to, from, bytes, kCompute));
}

void HostLink::zero(void* to, int64_t bytes) { check(*device_, device_->fill_zero(to, bytes, kCompute)); }

void HostLink::wait_sent() {
  if (!in_place_) check(*device_, device_->wait_on_host(sent_));
}

void HostLink::wait() { check(*device_, device_->synchronize(kCompute)); }

void HostLink::write(void* to, const void* host, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  check(*device_, device_->copy_to_device(to, host, bytes, kCompute));
  check(*device_, device_->synchronize(kCompute));
}

void HostLink::read(void* host, const void* from, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  check(*device_, device_->copy_to_host(host, from, bytes, kCompute));
  check(*device_, device_->synchronize(kCompute));
}

}  // namespace hawser::device
