// ProcessGroup: communication between ranks. Every call is asynchronous: it joins the queue of its lane and
// returns a ticket. Its inputs and outputs must not be touched until wait. All members issue the same calls
// in the same order with the same sizes. Calls allocate nothing.
//
// Sums are deterministic: in f32, with ranks ascending inside subgroups of Reduction::sum_group, then
// subgroups ascending (ordered_sums.h). A result does not depend on the transport, on timing, or on how
// elements are divided into calls.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/comm/ledger.h"

namespace hawser::comm {

/// A call in flight; ticket 0 means that there is nothing to wait for. Tickets count the calls of a rank's
/// lane (lane.h).
struct Work {
  uint64_t ticket = 0;
  int32_t lane = 0;
};

/// One array of an all_gather: member r's `shard` (shard_elements each) is copied to full + r *
/// shard_elements on all members. `shard` may already be in that position of `full`. Elements are sent
/// unchanged.
struct GatherPiece {
  void* full = nullptr;
  const void* shard = nullptr;
  int64_t shard_elements = 0;
};

/// One array of a reduce_scatter: the sum over members of full[r * shard_elements ...) goes to member r's
/// `shard`, which may be in that position of `full`. The Reduction gives the types in memory.
struct ReducePiece {
  void* shard = nullptr;
  const void* full = nullptr;
  int64_t shard_elements = 0;
};

/// One array of an all_reduce: out (+)= sum over members of in. `out` may be `in` if their types are equal.
/// The Reduction gives the types in memory.
struct AllReducePiece {
  void* out = nullptr;
  const void* in = nullptr;
  int64_t elements = 0;
};

/// The types in which addends are sent and summed, and the order of the sum.
struct Reduction {
  /// f32, bf16, f16, kI8Block or kI4Block: every addend is rounded to it once, including the owner's. Of
  /// records, so is every subgroup's sum, if there are several subgroups of several members (ordered_sums.h).
  DType wire = DType::kF32;
  DType round_to = DType::kF32;  ///< the finished sum is rounded to it once (before it is accumulated)
  int32_t sum_group = 0;         ///< members in each subgroup; 0: all. Must divide the group's size
  /// Sum by one binary tree over members (a power of two) instead of in order; not of records.
  bool tree = false;
  bool accumulate = false;      ///< add the sum to the destination's contents
  DType in_type = DType::kF32;  ///< type of addends in memory: f32, or bf16 that is also sent as bf16
  /// Type of destinations in memory: f32, or bf16, to which the sum is rounded (after accumulation, if any).
  DType out_type = DType::kF32;
};

/// A process group. Spans of pieces, and the memory to which they refer, must not change until wait.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int32_t rank() const { return rank_; }  ///< this member's rank in the group
  int32_t size() const { return static_cast<int32_t>(members_.size()); }
  const std::vector<int32_t>& members() const { return members_; }  ///< world ranks of the members, ascending
  const std::string& name() const { return name_; }

  virtual Work all_gather(std::span<const GatherPiece> pieces, DType type) = 0;
  virtual Work reduce_scatter(std::span<const ReducePiece> pieces, const Reduction& reduction) = 0;
  virtual Work all_reduce(std::span<const AllReducePiece> pieces, const Reduction& reduction) = 0;
  /// Replaces data[count] by the exact sum over members, for counts and exact accumulators.
  virtual Work all_reduce_i64(int64_t* data, int64_t count) = 0;
  /// Copies member s's in + r * bytes to member r's out + s * bytes.
  virtual Work all_to_all(void* out, const void* in, int64_t bytes) = 0;
  /// Copies like all_to_all with individual sizes: `in` has in_bytes[r] for member r, contiguously; `out`
  /// likewise.
  virtual Work all_to_all_v(void* out, std::span<const int64_t> out_bytes, const void* in,
                            std::span<const int64_t> in_bytes) = 0;
  virtual Work broadcast(void* data, int64_t bytes, int32_t root) = 0;
  /// Send and receive within the group. Sends and receives between two members match in order. A send may
  /// delay later calls of its lane until its receiver has taken the data. If two members exchange data in one
  /// lane, one must therefore receive first.
  virtual Work send(const void* data, int64_t bytes, int32_t to) = 0;
  virtual Work recv(void* data, int64_t bytes, int32_t from) = 0;
  virtual Work barrier() = 0;

  /// Waits until the call, of any group of the same lane, is done on this rank (its results are complete, its
  /// inputs are free). Throws kTimeout (with the members that did not enter the call), kUnavailable (a member
  /// is gone), kInvalidArgument (members make different calls), or the error passed to abort on any member.
  /// After that the whole Comm is broken: every later call throws the same error.
  virtual void wait(Work work) = 0;
  /// Orders later work of the rank's compute stream after the call. The host waits until the call has been
  /// submitted to the device, not until it is done; for host memory both are the same (wait). Throws failures
  /// that are known by then; wait throws later failures.
  virtual void follow(Work work) { wait(work); }
  virtual bool done(Work work) const = 0;
  /// Returns calls and bytes by operation so far (ledger.h). It may be called while calls run.
  virtual Traffic traffic() const = 0;

 protected:
  ProcessGroup(int32_t rank, std::vector<int32_t> members, std::string name)
      : rank_(rank), members_(std::move(members)), name_(std::move(name)) {}

 private:
  int32_t rank_;
  std::vector<int32_t> members_;
  std::string name_;
};

}  // namespace hawser::comm
