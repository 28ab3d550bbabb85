// Communicator: one rank's end of a group of GPUs over NCCL. The communicator is non-blocking, so nothing
// here waits for a peer longer than its deadline: every wait is a loop that asks NCCL and the stream how
// things stand, looks at the clock and at abort. After a failure the communicator is gone and every later
// call says why.
//
// Part of the CUDA plugin. One thread at a time, but for abort.
#pragma once

#include "engine/comm/nccl/nccl_library.h"

namespace hawser::comm::nccl {

/// What of a CUDA stream is needed, so that tests need none.
struct StreamUse {
  void* stream = nullptr;  ///< cudaStream_t
  void* user = nullptr;
  /// 0: all work of the stream is done; 1: not yet; -1: it failed, with a text in *why.
  int (*poll)(void* user, const char** why) = nullptr;
};

/// How a call ended; numbers of Code (engine/base/code.h).
using Status = int32_t;

class Communicator {
 public:
  /// `name` of the group goes into messages. All that is passed outlives this.
  Communicator(const Api& api, const StreamUse& stream, const char* name, int rank, int ranks,
               double timeout_seconds);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  /// Meets the other ranks; `id` is the same on all, made by make_id on one of them.
  Status connect(const UniqueId& id);
  Status make_id(UniqueId* id);

  // Memory is the GPU's; bytes >= 0. A call returns when its work is done. All ranks call alike.

  /// Rank r's `shard` lands at full + r * bytes on all; it may lie there.
  Status all_gather(void* full, const void* shard, int64_t bytes);
  /// in_bytes[r] bytes at in + in_offsets[r] go to rank r, whose out_bytes for this rank are as many.
  Status all_to_all(void* out, const int64_t* out_offsets, const int64_t* out_bytes, const void* in,
                    const int64_t* in_offsets, const int64_t* in_bytes);
  Status broadcast(void* data, int64_t bytes, int root);
  Status send(const void* data, int64_t bytes, int to);
  Status recv(void* data, int64_t bytes, int from);

  /// A waiting or later call returns `code`. Any thread.
  void abort(Status code);

  /// Why the last call failed.
  const char* message() const { return message_; }

 private:
  Status begin(const char* operation);
  Status failed(Status code, const char* what, const char* why);
  Status refused(int result, const char* function);
  /// Ends the group of calls that begin opened, and waits until they are done.
  Status finish();
  Status wait_for_library();
  Status wait_for_stream();
  /// Not 0: the deadline has passed, or abort was called.
  Status interrupted(const char* waiting_for);
  void drop();

  const Api& api_;
  const StreamUse stream_;
  const char* const name_;
  const int rank_, ranks_;
  const double timeout_seconds_;
  Comm comm_ = nullptr;
  const char* operation_ = "";
  double deadline_ = 0;
  bool in_group_ = false;
  int32_t aborted_ = 0;  ///< atomically
  Status broken_ = 0;
  char message_[512] = {};
};

}  // namespace hawser::comm::nccl
