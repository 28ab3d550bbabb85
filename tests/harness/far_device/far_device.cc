#include "tests/harness/far_device/far_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "engine/base/error.h"
#include "kernels/include/each_kernel.h"
#include "tests/harness/far_device/far_control.h"
#include "tests/harness/far_device/far_link.h"
#include "tests/harness/far_device/far_memory.h"

namespace hawser::testing {
namespace {

FarControl control;

FarMemory memory_of_all;

constexpr auto kUnavailable = static_cast<int32_t>(Code::kDeviceUnavailable);

struct FarEvent {
  device::StreamId on = device::StreamId::kCompute;
  int64_t after = 0;    // number of pieces of work before it
  int64_t capture = 0;  // the capture in which it was recorded; 0: none
};

/// Captured work, which may be launched repeatedly.
struct FarGraph {
  std::vector<FarDevice::Work> work;
};

FarEvent& event_of(device::Event* event) { return *reinterpret_cast<FarEvent*>(event); }

void* map(int64_t bytes, int flags) {
  void* const p = mmap(nullptr, pages(bytes), flags, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

}  // namespace

FarDevice::FarDevice(const device::DeviceRequest& request)
    : request_(request), kernels_(*request.host_kernels) {
  StreamId made;
  for (int i = 0; i < 2; ++i) (void)make_stream(&made);
  wrap_kernels();
}

FarDevice::Status FarDevice::make_stream(StreamId* out) noexcept {
  const std::lock_guard lock(mutex_);
  *out = static_cast<StreamId>(queues_.size());
  queues_.emplace_back().stream = {{nullptr, request_.host_stream->num_workers}, this, *out};
  return 0;
}

FarDevice::Queue& FarDevice::queue(StreamId id) {
  const std::lock_guard lock(mutex_);
  return queues_[static_cast<size_t>(id)];
}

namespace {

/// A copy of the part of a call's arguments that a kernel must read before it returns.
template <typename Args>
struct Taken {
  explicit Taken(const Args& given) : args(given) {}
  Args args;
  const Args& get() const { return args; }
};
template <>
struct Taken<kernels::OrderedSum> {
  explicit Taken(const kernels::OrderedSum& given) : args(given), in(given.in, given.in + given.members) {}
  kernels::OrderedSum get() const {
    kernels::OrderedSum own = args;
    own.in = in.data();
    return own;
  }
  kernels::OrderedSum args;
  std::vector<const void*> in;
};

}  // namespace

template <auto kKernel, typename Args>
void FarDevice::queued(const Args& args, Stream& stream) {
  FarStream& far = reinterpret_cast<FarStream&>(stream);
  FarDevice* const device = far.device;
  device->give_done(far.id, [device, taken = Taken<Args>(args)] {
    (device->request_.host_kernels->*kKernel)(taken.get(), *device->request_.host_stream);
  });
}

void FarDevice::wrap_kernels() {
  const kernels::KernelTable& real = *request_.host_kernels;
  kernels_.name = kFarName;
  kernels::each_kernel([&]<auto kKernel>() { wrap<kKernel>(real.*kKernel); });
}

device::DeviceInfo FarDevice::info() const noexcept {
  device::DeviceInfo info;
  info.kind = device::Kind::kCuda;
  info.index = request_.index;
  info.name = kFarName;
  info.without = kFarWithout;
  info.total_bytes = kFarBytes;
  info.hardware_id[0] = static_cast<uint8_t>(request_.index + 1);
  info.captures = true;
  return info;
}

FarDevice::Status FarDevice::memory(int64_t* available, int64_t* total) noexcept {
  *available = *total = kFarBytes;
  return 0;
}

FarDevice::Status FarDevice::allocate(int64_t bytes, void** out) noexcept {
  *out = map(bytes, PROT_NONE);
  if (*out == nullptr) return failed(static_cast<int32_t>(Code::kOutOfMemory), "far memory is full");
  memory_of_all.add(this, *out, bytes);
  return 0;
}

void FarDevice::release(void* memory, int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (const Queue& q : queues_)
    if (!q.work.empty()) std::abort();  // work may still use the memory
  memory_of_all.remove(memory);
  munmap(memory, pages(bytes));
}

FarDevice::Status FarDevice::allocate_for_peers(int64_t bytes, void** out) noexcept {
  *out = nullptr;
  return control.has_no_peer_memory ? failed(kUnavailable, "the test wants no memory for links")
                                    : allocate(bytes, out);
}

void FarDevice::release_for_peers(void* memory, int64_t bytes) noexcept {
  if (is_registered(memory)) std::abort();  // other devices may still use the memory
  release(memory, bytes);
}

FarDevice::Status FarDevice::allocate_host(int64_t bytes, void** out) noexcept {
  *out = map(bytes, PROT_READ | PROT_WRITE);
  if (*out == nullptr) return failed(static_cast<int32_t>(Code::kOutOfMemory), "the host's memory is full");
  const std::lock_guard lock(mutex_);
  pinned_.push_back({*out, bytes});
  return 0;
}

void FarDevice::release_host(void* memory, int64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(pinned_, [&](const Block& block) { return block.memory == memory; });
  munmap(memory, pages(bytes));
}

bool FarDevice::is_pinned(const void* host) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(pinned_.begin(), pinned_.end(), [&](const Block& block) {
    return host >= block.memory && host < static_cast<char*>(block.memory) + block.bytes;
  });
}

FarDevice::Status FarDevice::copy_to_device(void* to, const void* host, int64_t bytes, StreamId on) noexcept {
  if (!is_pinned(host)) spoil(on, "a copy from memory that is not pinned");
  return give_done(on, [=] { std::memcpy(to, host, static_cast<size_t>(bytes)); });
}

FarDevice::Status FarDevice::copy_to_host(void* host, const void* from, int64_t bytes, StreamId on) noexcept {
  if (!is_pinned(host)) spoil(on, "a copy to memory that is not pinned");
  if (queue(on).captures && control.fails_captured_fetch)
    return failed(kUnavailable, "the test wants this copy to fail");
  return give_done(on, [=] { std::memcpy(host, from, static_cast<size_t>(bytes)); });
}

FarDevice::Status FarDevice::copy_inside(void* to, const void* from, int64_t bytes, StreamId on) noexcept {
  return give_done(on, [=] { std::memcpy(to, from, static_cast<size_t>(bytes)); });
}

FarDevice::Status FarDevice::fill_zero(void* to, int64_t bytes, StreamId on) noexcept {
  return give_done(on, [=] { std::memset(to, 0, static_cast<size_t>(bytes)); });
}

FarDevice::Status FarDevice::make_event(device::Event** out) noexcept {
  *out = reinterpret_cast<device::Event*>(new FarEvent);
  return 0;
}

void FarDevice::free_event(device::Event* event) noexcept { delete &event_of(event); }

FarDevice::Status FarDevice::record(device::Event* event, StreamId on) noexcept {
  const std::lock_guard lock(mutex_);
  event_of(event) = {on, queue(on).given, queue(on).captures ? captures_ : 0};
  return 0;
}

FarDevice::Status FarDevice::wait(device::Event* event, StreamId on) noexcept {
  const std::lock_guard lock(mutex_);
  const FarEvent until = event_of(event);
  if (until.capture == captures_ && queue(until.on).captures) {  // the stream joins the capture
    queue(on).captures = true;
    if (until.on != on) queue(until.on).joined = true;
    return 0;
  }
  spoil(on, "it waits for what is not captured");
  return give(on, [this, until] { return run(until.on, until.after); });
}

FarDevice::Status FarDevice::wait_on_host(device::Event* event) noexcept {
  FarEvent until;
  {
    const std::lock_guard lock(mutex_);
    until = event_of(event);
    spoil(until.on, "the host waits for an event");
  }
  finish(until.on, until.after);
  return 0;
}

FarDevice::Status FarDevice::synchronize(StreamId on) noexcept {
  int64_t given = 0;
  {
    const std::lock_guard lock(mutex_);
    spoil(on, "the host waits for it");
    given = queue(on).given;
  }
  finish(on, given);
  return 0;
}

/// There is no clock: each piece of work counts as one microsecond.
FarDevice::Status FarDevice::elapsed(device::Event* from, device::Event* to, double* seconds) noexcept {
  const std::lock_guard lock(mutex_);
  *seconds = 1e-6 * static_cast<double>(event_of(to).after - event_of(from).after);
  return 0;
}

FarDevice::Status FarDevice::make_peer_link(const device::PeerLinkRequest& request,
                                            device::PeerLink** out) noexcept {
  *out = make_far_link(*this, request);
  return 0;
}

FarDevice::Status FarDevice::begin_capture(StreamId on) noexcept {
  const std::lock_guard lock(mutex_);
  if (queue(on).captures) return failed(kUnavailable, "the stream is captured already");
  queue(on).captures = true;
  captured_.clear();
  origin_ = on;
  ++captures_;
  spoilt_ = control.cannot_capture || control.captures_left-- <= 0 ? "the test wants none" : "";
  return 0;
}

FarDevice::Status FarDevice::end_capture(StreamId on, device::Graph** out) noexcept {
  const std::lock_guard lock(mutex_);
  *out = nullptr;
  for (Queue& q : queues_) {
    if (!std::exchange(q.joined, true)) spoil(on, "nobody waits for the last work of a stream");
    q.captures = false;
  }
  if (!spoilt_.empty()) return failed(kUnavailable, "far memory cannot capture: " + spoilt_);
  *out = reinterpret_cast<device::Graph*>(new FarGraph{std::move(captured_)});
  ++control.captures, ++control.graphs, ++graphs_;
  return 0;
}

FarDevice::Status FarDevice::launch(device::Graph* graph, StreamId on) noexcept {
  if (control.fails_launch) return failed(kUnavailable, "the test wants this launch to fail");
  ++control.launches, ++control.given;
  const std::lock_guard lock(mutex_);
  for (const Work& work : reinterpret_cast<FarGraph*>(graph)->work) put(on, work);
  return 0;
}

void FarDevice::free_graph(device::Graph* graph) noexcept {
  --control.graphs, --graphs_;
  delete reinterpret_cast<FarGraph*>(graph);
}

void FarDevice::spoil(StreamId on, const char* why) {
  if (queue(on).captures && spoilt_.empty()) spoilt_ = why;
}

FarDevice::Status FarDevice::give(StreamId on, Work work) {
  const std::lock_guard lock(mutex_);
  if (queue(on).captures) {
    captured_.push_back(std::move(work));
    queue(on).joined = on == origin_;
    return 0;
  }
  return put(on, std::move(work));
}

FarDevice::Status FarDevice::put(StreamId on, Work work) {
  queue(on).work.push_back(std::move(work));
  ++queue(on).given;
  return 0;
}

FarDevice::Status FarDevice::give_done(StreamId on, std::function<void()> work) {
  ++control.given;
  return give(on, [work = std::move(work)] { return work(), true; });
}

bool FarDevice::run(StreamId on, int64_t count) {
  const std::lock_guard lock(mutex_);
  Queue& q = queue(on);
  if (q.done >= count) return true;
  if (open_++ == 0) opened_ = memory_of_all.open(this, control.shares_memory);
  while (q.done < count && q.work.front()()) {
    q.work.pop_front();
    ++q.done;
  }
  if (--open_ == 0) memory_of_all.close(opened_);
  return q.done >= count;
}

bool FarDevice::try_run(StreamId on, device::Event* until) {
  const std::lock_guard lock(mutex_);
  return until != nullptr ? run(event_of(until).on, event_of(until).after) : run(on, queue(on).given);
}

void FarDevice::finish(StreamId on, int64_t count) {
  while (!run(on, count)) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

FarDevice::Status FarDevice::failed(int32_t code, std::string message) {
  message_ = std::move(message);
  return code;
}

FarControl& far_control() { return control; }

}  // namespace hawser::testing
