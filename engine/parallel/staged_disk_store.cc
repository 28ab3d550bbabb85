#include "engine/parallel/staged_disk_store.h"

#include <stdint.h>

#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/signals_blocked.h"
#include "engine/base/steady_clock.h"
#include "engine/base/thread_name.h"
#include "engine/device/check.h"

namespace hawser::parallel {

StagedDiskStore::StagedDiskStore(std::shared_ptr<device::Device> device, std::shared_ptr<OffloadFile> file,
                                 size_t most, char* staging, int64_t largest_move)
    : device_(std::move(device)), disk_(file, 1) {
  staging += -reinterpret_cast<uintptr_t>(staging) % kOffloadPage;
  for (int i = 0; i < 2; ++i) {
    Direction& d = directions_[i];
    device::check(*device_, device_->make_stream(&d.stream));
    d.staging = staging + i * largest_move;
    d.copies.resize(most + 1);
    for (Copy& one : d.copies) one.reached = comm::make_mark(*device_);
  }
  const SignalsBlocked blocked;
  try {
    for (const Way way : {Way::kOut, Way::kIn}) {
      direction(way).thread = std::thread([this, way] { serve(way); });
      name_thread(direction(way).thread, "hws-staged", way == Way::kIn);
    }
  } catch (const std::system_error&) {
    stop();
    fail(Code::kUnavailable, "no thread can be created to copy data to {}", file->folder());
  }
}

StagedDiskStore::~StagedDiskStore() { stop(); }

void StagedDiskStore::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  work_.notify_all();
  for (Direction& d : directions_)
    if (d.thread.joinable()) d.thread.join();
}

uint64_t StagedDiskStore::start(Way way, char* memory, int64_t at, int64_t bytes) {
  Direction& d = direction(way);
  uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    Copy& one = d.copies[(d.started + 1) % d.copies.size()];
    device::check(*device_, device_->record(one.reached.get(), device::StreamId::kCompute));
    one.memory = memory, one.at = at, one.bytes = bytes;
    ticket = ++d.started;
  }
  work_.notify_all();
  return ticket;
}

void StagedDiskStore::wait(Way way, uint64_t ticket) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&, this] { return direction(way).done >= ticket; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

OffloadStore::Span StagedDiskStore::span(Way way, uint64_t ticket) const {
  const std::lock_guard lock(mutex_);
  const Direction& d = directions_[way == Way::kIn];
  return d.copies[ticket % d.copies.size()].span;
}

/// The loop of one direction's thread: executes one copy after the other.
void StagedDiskStore::serve(Way way) noexcept {
  Direction& d = direction(way);
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stops_ || d.done < d.started; });
    if (stops_) return;
    Copy& one = d.copies[(d.done + 1) % d.copies.size()];
    one.span.begin = steady_seconds();
    lock.unlock();
    std::exception_ptr failure;
    try {
      copy(way, d, one);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure && !failure_) failure_ = failure;
    one.span.end = steady_seconds();
    ++d.done;
    done_.notify_all();
  }
}

void StagedDiskStore::copy(Way way, const Direction& d, const Copy& one) {
  const auto check = [&](device::Status status) { device::check(*device_, status); };
  const bool in = way == Way::kIn;
  if (in) disk_.wait(way, disk_.start(way, d.staging, one.at, one.bytes));
  check(device_->wait(one.reached.get(), d.stream));
  check(in ? device_->copy_to_device(one.memory, d.staging, one.bytes, d.stream)
           : device_->copy_to_host(d.staging, one.memory, one.bytes, d.stream));
  check(device_->synchronize(d.stream));
  if (!in) disk_.wait(way, disk_.start(way, d.staging, one.at, one.bytes));
}

}  // namespace hawser::parallel
