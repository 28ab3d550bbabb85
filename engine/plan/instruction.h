// Instructions and slots: the elements of a plan. They hold ids and byte counts, no tensors. op_table.h lists
// what each op reads and writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/exchange_note.h"
#include "engine/plan/op_table.h"

namespace hawser::plan {

/// What a slot is used for. Memory is reported by category.
enum class Category : uint8_t {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kBuckets,  ///< gathered weights, and gradients that are being reduced
  kWorkspace,
  kStaging,
  kTables,
  kCount
};
const char* category_name(Category category);

/// How the executor uses a slot. parallel/shard_layout.h defines the layout of a block's state inside its
/// slots.
enum class Role : uint8_t {
  kOther,
  kWeights,         ///< whole weights of a block, in the compute type
  kWeightShards,    ///< this rank's shard of the weights
  kSecondary,       ///< this rank's shard within the smaller group of /zero/reshard_group
  kMaster,          ///< f32 masters of weights that are narrower in compute
  kGradients,       ///< whole gradients of a block
  kGradientShards,  ///< this rank's shard of the reduced gradients
  kShardSums,       ///< f32 sums of that shard, before replicas are added
  kGradientWindow,  ///< f32 gradients of one backward, if stored gradients are narrower
  kLookupGradient,  ///< gradient of a tied embedding from look-ups, without the head's
  kMoment1,
  kMoment2,
  kCount
};

/// What memory a slot is in. Each space is placed for itself.
enum class Space : uint8_t {
  kArena,  ///< of the rank's device
  kHost,   ///< pinned memory beside it
  kDisk,
};

/// An index into Plan::slots; -1 means none.
using SlotId = int32_t;

/// Where an instruction runs. The compute lane is the device's compute stream. Every other lane runs
/// transfers one after the other, in parallel with the compute lane and with other lanes.
enum class Lane : uint8_t {
  kCompute,
  kDataParallel,  ///< gradients and weights, between data-parallel ranks
  kBlock,         ///< exchanges within a block
  // Of a pipeline: one for each neighbour, way and kind, so that no message waits behind one of another kind.
  kXToNext,  ///< activations to the next stage
  kXFromPrevious,
  kDxToPrevious,  ///< gradients to the previous stage
  kDxFromNext,
  kXToPrevious,  ///< the same where the model turns back (V schedules)
  kXFromNext,
  kDxToNext,
  kDxFromPrevious,
  kTableGradient,  ///< of a table that the head shares: from the head's stage to the table's
  kTable,          ///< the table back
  kOffload,        ///< activations to another space
  kFetch,          ///< and back
  kCount
};
inline constexpr size_t kLanes = static_cast<size_t>(Lane::kCount);
const char* lane_name(Lane lane);
/// Whether its transfers are copies of one rank, in which no other takes part.
inline bool is_own(Lane lane) { return lane == Lane::kOffload || lane == Lane::kFetch; }

/// One instruction index for each lane; -1 means none.
class LaneMarks {
 public:
  LaneMarks() : LaneMarks(-1) {}
  explicit LaneMarks(int32_t all) { at_.fill(all); }
  int32_t& operator[](Lane lane) { return at_[static_cast<size_t>(lane)]; }
  int32_t operator[](Lane lane) const { return at_[static_cast<size_t>(lane)]; }
  bool operator==(const LaneMarks&) const = default;
  /// The largest index over all lanes.
  int32_t newest() const;
  /// Whether every lane's index is at most that of `done`.
  bool covered_by(const LaneMarks& done) const;
  void raise_to(const LaneMarks& other);

 private:
  std::array<int32_t, kLanes> at_;
};

/// A range of the arena. Persistent slots are always live. Others live from the first to the last instruction
/// that names them.
struct Slot {
  std::string name;
  Category category = Category::kActivations;
  int64_t bytes = 0;
  bool persistent = false;
  Role role = Role::kOther;
  int32_t block = -1;             ///< block whose state it holds
  int32_t first = -1, last = -1;  ///< instructions; -1 if none names it
  int64_t offset = -1;            ///< byte offset in its space
  Space space = Space::kArena;
  int64_t align = 64;         ///< of the offset
  LaneMarks last_transfer{};  ///< the last transfer of each lane that uses it
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
  int32_t bucket = -1;  ///< group of blocks whose gradients or weights are transferred together
  Lane lane = Lane::kCompute;
  bool experts = false;  ///< a transfer of experts that ranks divide (mesh ep), over the ranks with the same
  bool accumulate = false;  ///< adds to its gradients instead of overwriting them
  /// A half of a pair, which takes turns with the next instruction, the other half: one computes while
  /// exchanges of the other are carried (base/turns.h). Nothing stands between them, and each holds what the
  /// other uses.
  bool paired = false;
  /// The host takes part within its block: it counts the rows that go to experts of other ranks.
  bool host = false;
  std::vector<Use> uses;      ///< what op_table.h lists for the op
  std::vector<SlotId> holds;  ///< slots kept alive, so that an earlier transfer need not be awaited
  SlotId scratch = -1;        ///< workspace
  double flops = 0;
  /// Bytes that this rank sends, by the ring form of the operation (comm/ledger.h). On the compute lane: for
  /// what the instruction waits for, exchanges within its block and sums over all ranks.
  int64_t sent_bytes = 0;
  /// The exchanges within its block, in order; their bytes are in sent_bytes.
  std::vector<ExchangeNote> exchanges;
  /// The last transfer of each lane that must finish before this one starts. Computed from the arena bytes
  /// that both use.
  LaneMarks waits_for;

  bool is_transfer() const { return lane != Lane::kCompute; }
  /// A slot of -1 means that the operand is absent.
  void read(Operand operand, SlotId slot) {
    if (slot >= 0) uses.push_back({operand, slot, false});
  }
  void write(Operand operand, SlotId slot) {
    if (slot >= 0) uses.push_back({operand, slot, true});
  }
  /// The operand's slot (the first if it has several); -1 if absent.
  SlotId operator[](Operand operand) const {
    for (const Use& use : uses)
      if (use.operand == operand) return use.slot;
    return -1;
  }
  // In the order in which they were added. These allocate.

  std::vector<SlotId> all(Operand operand) const;
  std::vector<SlotId> reads() const;
  std::vector<SlotId> writes() const;
};

/// Whether the host takes part, so that a device cannot run it ahead of the host.
inline bool needs_host(const Instruction& n) {
  const Host host = traits_of(n.op).host;
  return n.host || host == Host::kAlways || (host == Host::kWithoutBlock && n.block < 0);
}

}  // namespace hawser::plan
