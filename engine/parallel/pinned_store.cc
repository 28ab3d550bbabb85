#include "engine/parallel/pinned_store.h"

#include <cstring>

#include "engine/base/steady_clock.h"
#include "engine/device/check.h"

namespace hawser::parallel {

using device::StreamId;

void PinnedMemory::read(int64_t at, void* to, int64_t bytes) {
  std::memcpy(to, memory_ + at, static_cast<size_t>(bytes));
}

void PinnedMemory::write(int64_t at, const void* from, int64_t bytes) {
  std::memcpy(memory_ + at, from, static_cast<size_t>(bytes));
}

PinnedStore::PinnedStore(std::shared_ptr<device::Device> device, char* memory, size_t most)
    : device_(std::move(device)), memory_(memory) {
  for (Direction& d : directions_) {
    device::check(*device_, device_->make_stream(&d.stream));
    d.reached = comm::make_mark(*device_);
    d.spans.resize(most + 1);
    for (size_t i = 0; i <= most; ++i) d.done.push_back(comm::make_mark(*device_));
  }
}

PinnedStore::~PinnedStore() {
  for (const Direction& d : directions_) (void)device_->synchronize(d.stream);
}

uint64_t PinnedStore::start(Way way, char* memory, int64_t at, int64_t bytes) {
  Direction& d = direction(way);
  const auto check = [&](device::Status status) { device::check(*device_, status); };
  char* const host = memory_ + at;
  check(device_->record(d.reached.get(), StreamId::kCompute));
  check(device_->wait(d.reached.get(), d.stream));
  check(way == Way::kIn ? device_->copy_to_device(memory, host, bytes, d.stream)
                        : device_->copy_to_host(host, memory, bytes, d.stream));
  const uint64_t ticket = ++d.started;
  const size_t place = ticket % d.done.size();
  check(device_->record(d.done[place].get(), d.stream));
  d.spans[place].begin = d.spans[place].end = steady_seconds();
  return ticket;
}

void PinnedStore::follow(Way way, uint64_t ticket) {
  Direction& d = direction(way);
  device::check(*device_, device_->wait(d.done[ticket % d.done.size()].get(), StreamId::kCompute));
}

void PinnedStore::wait(Way way, uint64_t ticket) {
  Direction& d = direction(way);
  device::check(*device_, device_->wait_on_host(d.done[ticket % d.done.size()].get()));
}

OffloadStore::Span PinnedStore::span(Way way, uint64_t ticket) const {
  const Direction& d = directions_[way == Way::kIn];
  return d.spans[ticket % d.spans.size()];
}

}  // namespace hawser::parallel
