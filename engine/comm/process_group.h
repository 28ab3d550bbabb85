// ProcessGroup: what ranks say to each other. Every call is asynchronous: it joins the queue of its lane and
// returns a ticket; what it reads and writes belongs to it until wait. All members issue the same calls in
// the same order with the same sizes. Nothing is allocated by a call.
//
// Sums are deterministic: reduce_scatter is an all-to-all followed by a sum in f32 on the owner, ranks
// ascending inside groups of Reduction::sum_group, then groups ascending. So a result depends neither on
// transport nor on timing nor on how elements are cut into calls.
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

/// A call in flight; ticket 0: nothing to wait for. Tickets count the calls of a rank's lane (lane.h).
struct Work {
  uint64_t ticket = 0;
  int32_t lane = 0;
};

/// One array of an all_gather: member r's `shard` (shard_elements each) lands at full + r * shard_elements on
/// all. `shard` may lie at its place in `full`. Elements travel as they are.
struct GatherPiece {
  void* full = nullptr;
  const void* shard = nullptr;
  int64_t shard_elements = 0;
};

/// One array of a reduce_scatter: the sum over members of full[r * shard_elements ...) lands in member r's
/// `shard`, which may lie at its place in `full`. Types in memory are the Reduction's.
struct ReducePiece {
  void* shard = nullptr;
  const void* full = nullptr;
  int64_t shard_elements = 0;
};

/// One array of an all_reduce: out (+)= sum over members of in. `out` may be `in`, if their types are one.
/// Types in memory are the Reduction's.
struct AllReducePiece {
  void* out = nullptr;
  const void* in = nullptr;
  int64_t elements = 0;
};

/// How addends travel and how they are summed.
struct Reduction {
  DType wire = DType::kF32;  ///< f32, bf16 or f16: every addend is rounded to it once, the owner's own too
  DType round_to = DType::kF32;  ///< the finished sum is rounded to it once (before it is accumulated)
  int32_t sum_group = 0;         ///< members per inner sum; 0: all. Must divide the group's size
  bool tree = false;             ///< sum by one binary tree over members (a power of two) instead of in order
  bool accumulate = false;       ///< add the sum to what the destination holds
  DType in_type = DType::kF32;   ///< of addends in memory: f32, or bf16 that travel so
  /// Of destinations in memory: f32, or bf16, to which the sum, or what it is added to with it, is rounded.
  DType out_type = DType::kF32;
};

/// Spans of pieces must stay as they are until wait, like the memory they name.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int32_t rank() const { return rank_; }  ///< of this member, in the group
  int32_t size() const { return static_cast<int32_t>(members_.size()); }
  const std::vector<int32_t>& members() const { return members_; }  ///< their world ranks, ascending
  const std::string& name() const { return name_; }

  virtual Work all_gather(std::span<const GatherPiece> pieces, DType type) = 0;
  virtual Work reduce_scatter(std::span<const ReducePiece> pieces, const Reduction& reduction) = 0;
  virtual Work all_reduce(std::span<const AllReducePiece> pieces, const Reduction& reduction) = 0;
  /// data[count] of i64 becomes the exact sum over members. For counts and exact accumulators.
  virtual Work all_reduce_i64(int64_t* data, int64_t count) = 0;
  /// Member s's in + r * bytes lands in member r's out + s * bytes.
  virtual Work all_to_all(void* out, const void* in, int64_t bytes) = 0;
  /// The same with sizes of their own: in holds in_bytes[r] for member r, back to back; out likewise.
  virtual Work all_to_all_v(void* out, std::span<const int64_t> out_bytes, const void* in,
                            std::span<const int64_t> in_bytes) = 0;
  virtual Work broadcast(void* data, int64_t bytes, int32_t root) = 0;
  /// Point to point inside the group. Sends and receives between two members match in order. A send may hold
  /// up the later calls of its lane until its receiver has taken it: of two members that pass to each other in
  /// one lane, one must begin by receiving.
  virtual Work send(const void* data, int64_t bytes, int32_t to) = 0;
  virtual Work recv(void* data, int64_t bytes, int32_t from) = 0;
  virtual Work barrier() = 0;

  /// Returns when the call, of any group of the same lane, is done here (its results are there, its inputs are
  /// free). Throws kTimeout (who
  /// did not come to which call), kUnavailable (a member is gone), kInvalidArgument (members disagree about a
  /// call), or what abort was told on any member. After a throw the whole Comm is broken: every later call
  /// throws the same.
  virtual void wait(Work work) = 0;
  /// What the rank's compute stream is given from now on comes after the call. The host waits until the call
  /// was given to the device, and not until it is done; of memory of the host that is one (wait). Throws what
  /// is known to have failed by then; the rest, wait throws.
  virtual void follow(Work work) { wait(work); }
  virtual bool done(Work work) const = 0;
  /// Calls and bytes by operation so far (ledger.h); safe beside running calls.
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
