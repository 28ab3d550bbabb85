// Communicator: one rank's end of a group of GPUs over NCCL. The communicator is non-blocking, so no call
// waits for a peer beyond its deadline: every wait is a loop that polls NCCL and the stream, checks the clock
// and asks whether to continue. After a failure the communicator is aborted, and every later call reports the
// reason.
//
// Part of the CUDA plugin: the part of a PeerLink that does not use CUDA. One thread submits calls, another
// may wait.
#pragma once

#include <pthread.h>

#include <mutex>

#include "engine/comm/nccl/nccl_library.h"
#include "engine/device/peer_link.h"

namespace hawser::comm::nccl {

/// The operations of a CUDA stream that Communicator needs, as functions, so that tests need no CUDA.
struct StreamUse {
  void* stream = nullptr;  ///< cudaStream_t
  void* user = nullptr;
  /// Polls the event: returns 0 if complete, 1 if not yet, -1 if work failed, with a text in *why.
  int (*poll)(void* user, device::Event* event, const char** why) = nullptr;
};

/// The outcome of a call, with the numbers of Code (engine/base/code.h).
using device::Status;

class Communicator {
 public:
  /// The arguments must outlive this object.
  Communicator(const Api& api, const StreamUse& stream, const device::PeerLinkRequest& request);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // The following functions are those of PeerLink.

  Status make_id(UniqueId* id);
  Status connect(const UniqueId& id);
  bool register_memory(void* memory, int64_t bytes);
  Status deregister_memory();
  Status all_gather(void* full, const void* shard, int64_t bytes);
  Status all_to_all(void* out, const int64_t* out_offsets, const int64_t* out_bytes, const void* in,
                    const int64_t* in_offsets, const int64_t* in_bytes);
  Status broadcast(void* data, int64_t bytes, int root);
  Status send(const void* data, int64_t bytes, int to);
  Status recv(void* data, int64_t bytes, int from);
  Status wait(device::Event* reached, device::Event* done);

  /// Returns why the last call failed.
  const char* message() const { return message_; }

 private:
  using Lock = std::lock_guard<std::mutex>;

  Status begin(const char* operation);
  Status failed(Status code, const char* what, const char* why);
  Status refused(int result, const char* function);
  /// Ends the group of calls that `begin` opened, and waits until they are submitted to the stream.
  Status finish();
  Status wait_for_library();
  Status wait_for_event(device::Event* event, const char* waiting_for, double deadline);
  /// Polls the event once; returns -1 if it is not complete yet.
  Status look_at(device::Event* event, const char* waiting_for, double deadline);
  /// Returns 0 unless the deadline has passed or the caller asked to stop.
  Status interrupted(const char* waiting_for, double deadline);
  /// Ends all registrations; returns NCCL's first error.
  int deregister();
  /// Aborts the communicator on a thread of its own, because ncclCommAbort stops the calls on the GPU and
  /// then waits until no graph contains calls of the communicator. Graphs are freed later, by another thread.
  void drop();

  const Api& api_;
  const StreamUse stream_;
  const device::PeerLinkRequest request_;
  std::mutex mutex_;  ///< held by a call until it is submitted to the stream, and by a wait during each poll
  Comm comm_ = nullptr;
  Comm aborted_ = nullptr;  ///< the communicator that `aborting_` ends
  pthread_t aborting_ = {};
  bool has_thread_ = false;  ///< `aborting_` was started
  static constexpr int kMostRanges = 8;
  void* registered_[kMostRanges] = {};  ///< handles of NCCL
  int ranges_ = 0;
  const char* operation_ = "";
  double deadline_ = 0;  ///< deadline of the call that is being submitted
  bool in_group_ = false;
  Status broken_ = 0;
  char message_[512] = {};
};

}  // namespace hawser::comm::nccl
