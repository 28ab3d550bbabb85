// Instructions and slots: what a plan is made of. No tensors here: ids and bytes. What each op reads and
// writes stands in op_table.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/op_table.h"

namespace hawser::plan {

/// What a slot's bytes are for; memory is reported by it.
enum class Category : uint8_t {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kBuckets,  ///< gathered weights, gradients on their way between ranks or to where they are kept
  kWorkspace,
  kStaging,
  kTables,
  kCount
};
const char* category_name(Category category);

/// What a slot is to the executor. A block's state is laid out inside its slots as parallel/shard_layout.h
/// says.
enum class Role : uint8_t {
  kOther,
  kWeights,         ///< whole weights of a block, as compute reads them
  kWeightShards,    ///< this rank's part of them
  kSecondary,       ///< this rank's part of them inside the smaller group of /zero/reshard_group
  kMaster,          ///< f32 masters of what is narrower in compute
  kGradients,       ///< whole gradients of a block
  kGradientShards,  ///< this rank's part of the reduced ones
  kShardSums,       ///< f32 sums of that part, before replicas add theirs
  kGradientWindow,  ///< f32 gradients as one backward writes them, where what is kept is narrower
  kLookupGradient,  ///< of a tied embedding: what look-ups add, apart from the head's
  kMoment1,
  kMoment2,
  kCount
};

/// An index into Plan::slots; -1: none.
using SlotId = int32_t;

/// Where an instruction runs. The compute lane is the device's compute stream. On every other lane transfers
/// run one after the other, beside those of other lanes and beside what computes.
enum class Lane : uint8_t {
  kCompute,
  kDataParallel,  ///< gradients and weights, among ranks that see different samples
  kBlock,         ///< exchanges inside a block
  kToNext,        ///< pipeline: activations to the next stage
  kFromPrevious,  ///< activations from the previous one
  kToPrevious,    ///< gradients to the previous stage
  kFromNext,      ///< gradients from the next one
  kCount
};
inline constexpr size_t kLanes = static_cast<size_t>(Lane::kCount);
const char* lane_name(Lane lane);

/// One instruction of each lane; -1: none.
class LaneMarks {
 public:
  LaneMarks() : LaneMarks(-1) {}
  explicit LaneMarks(int32_t all) { at_.fill(all); }
  int32_t& operator[](Lane lane) { return at_[static_cast<size_t>(lane)]; }
  int32_t operator[](Lane lane) const { return at_[static_cast<size_t>(lane)]; }
  bool operator==(const LaneMarks&) const = default;
  /// The greatest of all lanes.
  int32_t newest() const;
  /// In every lane no later than `done`.
  bool covered_by(const LaneMarks& done) const;
  void raise_to(const LaneMarks& other);

 private:
  std::array<int32_t, kLanes> at_;
};

/// A piece of the arena. Persistent slots live always; others from the first instruction that names them to
/// the last.
struct Slot {
  std::string name;
  Category category = Category::kActivations;
  int64_t bytes = 0;
  bool persistent = false;
  Role role = Role::kOther;
  int32_t block = -1;             ///< whose state it is
  int32_t first = -1, last = -1;  ///< instructions; -1 when no one names it
  int64_t offset = -1;            ///< bytes into the arena
  LaneMarks last_transfer{};      ///< the newest transfer of each lane that uses it
};

/// A slot that an instruction reads or writes.
struct Use {
  Operand operand;
  SlotId slot;
  bool written;
};

struct Instruction {
  Op op = Op::kForward;
  int32_t micro_batch = -1;
  int32_t block = -1;   ///< 0 embedding, 1..layers blocks, layers + 1 head
  int32_t bucket = -1;  ///< of the blocks whose gradients or weights travel together
  Lane lane = Lane::kCompute;
  bool accumulate = false;  ///< adds to the gradients that it writes
  std::vector<Use> uses;    ///< what op_table.h lists for the op
  std::vector<SlotId>
      holds;            ///< not touched, but kept alive, so that an earlier transfer need not be awaited
  SlotId scratch = -1;  ///< workspace
  double flops = 0;
  /// By this rank, by the ring form of the operation (comm/ledger.h). On the compute lane: what it agrees on
  /// with all other ranks before it goes on.
  int64_t sent_bytes = 0;
  /// The newest transfer of each lane that must be done before this one starts. It follows from the arena
  /// bytes that both use.
  LaneMarks waits_for;

  bool is_transfer() const { return lane != Lane::kCompute; }
  /// A slot of -1 is an operand that is not there.
  void read(Operand operand, SlotId slot) {
    if (slot >= 0) uses.push_back({operand, slot, false});
  }
  void write(Operand operand, SlotId slot) {
    if (slot >= 0) uses.push_back({operand, slot, true});
  }
  /// The operand's slot, the first where it has several; -1 where it is not there.
  SlotId operator[](Operand operand) const {
    for (const Use& use : uses)
      if (use.operand == operand) return use.slot;
    return -1;
  }
  // In the order in which they were given. These allocate.

  std::vector<SlotId> all(Operand operand) const;
  std::vector<SlotId> reads() const;
  std::vector<SlotId> writes() const;
};

/// The host takes part in it, so no device can be given it beforehand.
inline bool needs_host(const Instruction& n) {
  const Host host = traits_of(n.op).host;
  return host == Host::kAlways || (host == Host::kWithoutBlock && n.block < 0);
}

}  // namespace hawser::plan
