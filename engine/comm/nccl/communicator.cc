#include "engine/comm/nccl/communicator.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "engine/base/code.h"

namespace hawser::comm::nccl {
namespace {

double steady_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Pauses between two polls: briefly at first, because most calls are short, then long enough not to load the
/// processor.
void pause_for(int look) {
  if (look < 200) return;
  const timespec nap{0, look < 2000 ? 20'000 : 500'000};
  nanosleep(&nap, nullptr);
}

constexpr auto code_number(Code code) { return static_cast<Status>(code); }

}  // namespace

Communicator::Communicator(const Api& api, const StreamUse& stream, const device::PeerLinkRequest& request)
    : api_(api), stream_(stream), request_(request) {}

/// A healthy communicator is finalised, which does not wait for calls; a broken one is being aborted, which
/// also ends its registrations. Graphs of its calls have been freed, so neither waits for them.
Communicator::~Communicator() {
  if (comm_ != nullptr) {
    operation_ = "end";
    deadline_ = steady_seconds() + request_.timeout_seconds;
    const int result = deregister() == kSuccess ? api_.CommFinalize(comm_) : kInvalidUsage;
    const bool ends = result == kSuccess || result == kInProgress;
    if (ends && wait_for_library() == 0) {
      api_.CommDestroy(comm_);
    } else {
      drop();
    }
  }
  if (has_thread_) pthread_join(aborting_, nullptr);
}

Status Communicator::make_id(UniqueId* id) {
  const Lock lock(mutex_);
  operation_ = "make_id";
  const int result = api_.GetUniqueId(id);
  return result == kSuccess ? 0 : refused(result, "ncclGetUniqueId");
}

Status Communicator::connect(const UniqueId& id) {
  const Lock lock(mutex_);
  operation_ = "connect";
  deadline_ = steady_seconds() + request_.timeout_seconds;
  Config config;
  if (request_.most_processors > 0) config.max_ctas = request_.most_processors;
  const int result = api_.CommInitRankConfig(&comm_, request_.ranks, id, request_.rank, &config);
  if (result != kSuccess && result != kInProgress) return refused(result, "ncclCommInitRankConfig");
  return wait_for_library();
}

/// NCCL maps the memory into the other ranks' GPUs when a call first uses it. It reports success without a
/// handle if it registers nothing.
bool Communicator::register_memory(void* memory, int64_t bytes) {
  const Lock lock(mutex_);
  if (broken_ != 0) return false;
  const char* why = api_.without_registration;
  if (api_.CommRegister != nullptr && ranges_ < kMostRanges) {
    void* handle = nullptr;
    const int result = api_.CommRegister(comm_, memory, static_cast<size_t>(bytes), &handle);
    if (result == kSuccess && handle != nullptr) {
      registered_[ranges_++] = handle;
      return true;
    }
    why = result == kSuccess ? "NCCL's settings turn it off (NCCL_LOCAL_REGISTER, NCCL_P2P_USE_CUDA_MEMCPY)"
                             : api_.GetErrorString(result);
  }
  snprintf(message_, sizeof message_, "NCCL: rank %d of %d cannot register %lld bytes in group '%s': %s",
           request_.rank, request_.ranks, static_cast<long long>(bytes), request_.group, why);
  return false;
}

Status Communicator::deregister_memory() {
  const Lock lock(mutex_);
  if (broken_ != 0) return broken_;
  operation_ = "deregister_memory";
  const int result = deregister();
  return result == kSuccess ? 0 : refused(result, "ncclCommDeregister");
}

int Communicator::deregister() {
  int first = kSuccess;
  while (ranges_ > 0) {
    const int result = api_.CommDeregister(comm_, registered_[--ranges_]);
    if (first == kSuccess) first = result;
  }
  return first;
}

Status Communicator::begin(const char* operation) {
  if (broken_ != 0) return broken_;
  operation_ = operation;
  deadline_ = steady_seconds() + request_.timeout_seconds;
  if (const Status status = interrupted("start", deadline_); status != 0) return status;
  const int result = api_.GroupStart();
  in_group_ = result == kSuccess;
  return in_group_ ? 0 : refused(result, "ncclGroupStart");
}

Status Communicator::all_gather(void* full, const void* shard, int64_t bytes) {
  const Lock lock(mutex_);
  if (const Status status = begin("all_gather"); status != 0) return status;
  const int result =
      bytes > 0 ? api_.AllGather(shard, full, static_cast<size_t>(bytes), kUint8, comm_, stream_.stream)
                : kSuccess;
  if (result != kSuccess && result != kInProgress) return refused(result, "ncclAllGather");
  return finish();
}

Status Communicator::all_to_all(void* out, const int64_t* out_offsets, const int64_t* out_bytes,
                                const void* in, const int64_t* in_offsets, const int64_t* in_bytes) {
  const Lock lock(mutex_);
  if (const Status status = begin("all_to_all"); status != 0) return status;
  for (int peer = 0; peer < request_.ranks; ++peer) {
    int result = kSuccess;
    if (in_bytes[peer] > 0)
      result = api_.Send(static_cast<const char*>(in) + in_offsets[peer], static_cast<size_t>(in_bytes[peer]),
                         kUint8, peer, comm_, stream_.stream);
    if (result != kSuccess && result != kInProgress) return refused(result, "ncclSend");
    result = kSuccess;
    if (out_bytes[peer] > 0)
      result = api_.Recv(static_cast<char*>(out) + out_offsets[peer], static_cast<size_t>(out_bytes[peer]),
                         kUint8, peer, comm_, stream_.stream);
    if (result != kSuccess && result != kInProgress) return refused(result, "ncclRecv");
  }
  return finish();
}

/// Sends from the root to each member, which has one form for every size and no in-place rules.
Status Communicator::broadcast(void* data, int64_t bytes, int root) {
  const Lock lock(mutex_);
  if (const Status status = begin("broadcast"); status != 0) return status;
  for (int peer = 0; bytes > 0 && peer < request_.ranks; ++peer) {
    int result = kSuccess;
    if (request_.rank == root && peer != root)
      result = api_.Send(data, static_cast<size_t>(bytes), kUint8, peer, comm_, stream_.stream);
    if (request_.rank == peer && peer != root)
      result = api_.Recv(data, static_cast<size_t>(bytes), kUint8, root, comm_, stream_.stream);
    if (result != kSuccess && result != kInProgress) return refused(result, "broadcast");
  }
  return finish();
}

Status Communicator::send(const void* data, int64_t bytes, int to) {
  const Lock lock(mutex_);
  if (const Status status = begin("send"); status != 0) return status;
  const int result =
      bytes > 0 ? api_.Send(data, static_cast<size_t>(bytes), kUint8, to, comm_, stream_.stream) : kSuccess;
  if (result != kSuccess && result != kInProgress) return refused(result, "ncclSend");
  return finish();
}

Status Communicator::recv(void* data, int64_t bytes, int from) {
  const Lock lock(mutex_);
  if (const Status status = begin("recv"); status != 0) return status;
  const int result =
      bytes > 0 ? api_.Recv(data, static_cast<size_t>(bytes), kUint8, from, comm_, stream_.stream) : kSuccess;
  if (result != kSuccess && result != kInProgress) return refused(result, "ncclRecv");
  return finish();
}

/// Earlier work of the stream belongs to this rank, so waiting for it has no time limit.
Status Communicator::wait(device::Event* reached, device::Event* done) {
  if (const Status status = wait_for_event(reached, "its own work", HUGE_VAL); status != 0) return status;
  return wait_for_event(done, "the others' data", steady_seconds() + request_.timeout_seconds);
}

Status Communicator::finish() {
  in_group_ = false;
  const int result = api_.GroupEnd();
  if (result != kSuccess && result != kInProgress) return refused(result, "ncclGroupEnd");
  return wait_for_library();
}

Status Communicator::wait_for_library() {
  for (int look = 0;; ++look) {
    int result = kSuccess;
    const int asked = api_.CommGetAsyncError(comm_, &result);
    if (asked != kSuccess) return refused(asked, "ncclCommGetAsyncError");
    if (result == kSuccess) return 0;
    if (result != kInProgress) return refused(result, "a rank of the group");
    if (const Status status = interrupted("NCCL", deadline_); status != 0) return status;
    pause_for(look);
  }
}

Status Communicator::wait_for_event(device::Event* event, const char* waiting_for, double deadline) {
  for (int look = 0;; ++look) {
    if (const Status status = look_at(event, waiting_for, deadline); status >= 0) return status;
    pause_for(look);
  }
}

/// If a peer dies during a transfer, NCCL reports it, not the stream.
Status Communicator::look_at(device::Event* event, const char* waiting_for, double deadline) {
  const Lock lock(mutex_);
  if (broken_ != 0) return broken_;
  const char* why = "";
  const int state = stream_.poll(stream_.user, event, &why);
  if (state < 0) return failed(code_number(Code::kDeviceUnavailable), "the stream of transfers failed", why);
  int result = kSuccess;
  const int asked = api_.CommGetAsyncError(comm_, &result);
  if (asked != kSuccess) return refused(asked, "ncclCommGetAsyncError");
  if (result != kSuccess && result != kInProgress) return refused(result, "a rank of the group");
  if (state == 0) return 0;
  const Status status = interrupted(waiting_for, deadline);
  return status != 0 ? status : -1;
}

Status Communicator::interrupted(const char* waiting_for, double deadline) {
  const Status stopped = request_.stop != nullptr ? request_.stop(request_.user) : 0;
  if (stopped != 0) return failed(stopped, "stopped", "");
  if (steady_seconds() < deadline) return 0;
  char after[96];
  snprintf(after, sizeof after, "waited %.3g s for %s", request_.timeout_seconds, waiting_for);
  return failed(code_number(Code::kTimeout), after,
                "some ranks did not make this call, or made another one; see the other ranks' messages");
}

Status Communicator::refused(int result, const char* function) {
  char what[192];
  snprintf(what, sizeof what, "%s: %s", function, api_.GetErrorString(result));
  const char* const detail = comm_ != nullptr ? api_.GetLastError(comm_) : "";
  return failed(code_number(Code::kUnavailable), what, detail != nullptr ? detail : "");
}

/// The first reason stays. Waiting peers see this rank leave.
Status Communicator::failed(Status code, const char* what, const char* why) {
  if (broken_ != 0) return broken_;
  broken_ = code;
  snprintf(message_, sizeof message_, "NCCL: rank %d of %d, %s in group '%s': %s%s%s", request_.rank,
           request_.ranks, operation_, request_.group, what, why[0] != '\0' ? ": " : "", why);
  drop();
  return code;
}

void Communicator::drop() {
  if (in_group_)
    api_.GroupEnd();  // groups belong to the thread: an open one would swallow the next communicator's calls
  in_group_ = false;
  ranges_ = 0;
  if (comm_ == nullptr) return;
  aborted_ = comm_;
  comm_ = nullptr;
  const auto abort = [](void* self) -> void* {
    const auto& of = *static_cast<const Communicator*>(self);
    of.api_.CommAbort(of.aborted_);
    return nullptr;
  };
  has_thread_ = pthread_create(&aborting_, nullptr, abort, this) == 0;
  if (!has_thread_) abort(this);
}

}  // namespace hawser::comm::nccl
