// Communicator: one rank's end of a group of GPUs over NCCL. The communicator is non-blocking, so nothing
// here waits for a peer longer than its deadline: every wait is a loop that asks NCCL and the stream how
// things stand, looks at the clock and asks whether to go on. After a failure the communicator is gone and
// every later call says why.
//
// Part of the CUDA plugin: what a PeerLink does, without its CUDA. One thread at a time.
#pragma once

#include "engine/comm/nccl/nccl_library.h"
#include "engine/device/peer_link.h"

namespace hawser::comm::nccl {

/// What of a CUDA stream is needed, so that tests need none.
struct StreamUse {
  void* stream = nullptr;  ///< cudaStream_t
  void* user = nullptr;
  /// Of the event, or with null of all that the stream was given: 0: it has happened; 1: not yet; -1: work
  /// failed, with a text in *why.
  int (*poll)(void* user, device::Event* event, const char** why) = nullptr;
};

/// How a call ended; numbers of Code (engine/base/code.h).
using device::Status;

class Communicator {
 public:
  /// All that is passed outlives this.
  Communicator(const Api& api, const StreamUse& stream, const device::PeerLinkRequest& request);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // As in PeerLink.

  Status make_id(UniqueId* id);
  Status connect(const UniqueId& id);
  Status all_gather(void* full, const void* shard, int64_t bytes);
  Status all_to_all(void* out, const int64_t* out_offsets, const int64_t* out_bytes, const void* in,
                    const int64_t* in_offsets, const int64_t* in_bytes);
  Status broadcast(void* data, int64_t bytes, int root);
  Status send(const void* data, int64_t bytes, int to);
  Status recv(void* data, int64_t bytes, int from);
  /// `reached`: null: it has happened.
  Status wait(device::Event* reached);

  /// Why the last call failed.
  const char* message() const { return message_; }

 private:
  Status begin(const char* operation);
  Status failed(Status code, const char* what, const char* why);
  Status refused(int result, const char* function);
  /// Ends the group of calls that begin opened, and waits until the stream has them.
  Status finish();
  Status wait_for_library();
  Status wait_for_event(device::Event* event, const char* waiting_for);
  /// Not 0: the deadline has passed, or the caller says so.
  Status interrupted(const char* waiting_for);
  void drop();

  const Api& api_;
  const StreamUse stream_;
  const device::PeerLinkRequest request_;
  Comm comm_ = nullptr;
  const char* operation_ = "";
  double deadline_ = 0;
  bool in_group_ = false;
  Status broken_ = 0;
  char message_[512] = {};
};

}  // namespace hawser::comm::nccl
