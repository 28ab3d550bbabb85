// Instructions and slots: the elements of a plan. They hold ids and byte counts, not tensors. op_table.h
// lists what each op reads and writes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/exchange_note.h"
#include "engine/plan/op_table.h"

namespace hawser::plan {

/// The purpose of a slot. Memory is reported by category.
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

/// The executor's use of a slot. parallel/shard_layout.h defines the layout of a block's state inside its
/// slots.
enum class Role : uint8_t {
  kOther,
  kWeights,         ///< full weights of a block, in the compute type
  kWeightShards,    ///< this rank's shard of the weights
  kSecondary,       ///< this rank's shard within the secondary group (/zero/reshard_group)
  kMaster,          ///< f32 masters of weights that have a narrower compute type
  kGradients,       ///< full gradients of a block
  kGradientShards,  ///< this rank's shard of the reduced gradients
  kShardSums,       ///< f32 sums of kGradientShards, before replicas are summed
  kGradientWindow,  ///< f32 gradients of one backward, if stored gradients are narrower
  kLookupGradient,  ///< gradient of a tied embedding from look-ups alone, without the head's part
  kMoment1,
  kMoment2,
  kAverage,        ///< moving average of the weights, in f32
  kHostGradients,  ///< in host memory: the elements of kGradients that this rank updates
  kHostWeights,    ///< in host memory: updated weights in their compute type, on their way to the device
  kCount
};

/// The memory that holds a slot. Offsets are assigned in each space separately.
enum class Space : uint8_t {
  kArena,  ///< the arena on the rank's device
  kHost,   ///< pinned host memory outside the arena
  kDisk,   ///< a file of the rank
  kCount
};
const char* space_name(Space space);
/// Bytes in each space.
using BytesBySpace = std::array<int64_t, static_cast<size_t>(Space::kCount)>;

/// An index into Plan::slots; -1 means none.
using SlotId = int32_t;

/// The lane on which an instruction runs. The compute lane is the device's compute stream. Every other lane
/// runs transfers one after the other, in parallel with the compute lane and with the other transfer lanes.
enum class Lane : uint8_t {
  kCompute,
  kDataParallel,  ///< gradients and weights, between data-parallel ranks
  kBlock,         ///< exchanges within a block
  // Pipelines have one lane for each neighbour, direction and kind, so that no message waits behind a message
  // of another kind.
  kXToNext,  ///< activations to the next stage
  kXFromPrevious,
  kDxToPrevious,  ///< gradients to the previous stage
  kDxFromNext,
  kXToPrevious,  ///< activations in V schedules, where the model turns back to the previous stage
  kXFromNext,
  kDxToNext,
  kDxFromPrevious,
  kTableGradient,  ///< gradient of a table that the head shares: from the head's stage to the table's stage
  kTable,          ///< the updated table, from its stage to the head's
  kOffload,        ///< activations from the arena to their other space
  kFetch,          ///< activations back to the arena
  kOffloadState,   ///< state from the arena to its own space
  kFetchState,     ///< state from its own space to the arena
  kOffloadWeights,
  kFetchWeights,
  kHost,  ///< work of the host's processor on what is in host memory
  kCount
};
inline constexpr size_t kLanes = static_cast<size_t>(Lane::kCount);
const char* lane_name(Lane lane);

/// What OFFLOAD and FETCH move. Each kind has two lanes of its own, so that none waits behind another.
enum class Cargo : uint8_t { kActivations, kState, kWeights, kCount };
inline constexpr size_t kCargoes = static_cast<size_t>(Cargo::kCount);
struct CargoLanes {
  Lane out, in;  ///< from the arena, and to it
};
/// Indexed by Cargo.
inline constexpr std::array<CargoLanes, kCargoes> kCargoLanes{{{Lane::kOffload, Lane::kFetch},
                                                               {Lane::kOffloadState, Lane::kFetchState},
                                                               {Lane::kOffloadWeights, Lane::kFetchWeights}}};
/// Returns kCount for a lane that moves no cargo.
constexpr Cargo cargo_of(Lane lane) {
  size_t c = 0;
  while (c < kCargoes && kCargoLanes[c].out != lane && kCargoLanes[c].in != lane) ++c;
  return static_cast<Cargo>(c);
}
/// True if no other rank takes part in the lane's work: copies within a rank, and work of its host.
constexpr bool is_own(Lane lane) { return cargo_of(lane) != Cargo::kCount || lane == Lane::kHost; }

/// One instruction index for each lane; -1 means none.
class LaneMarks {
 public:
  LaneMarks() : LaneMarks(-1) {}
  explicit LaneMarks(int32_t all) { at_.fill(all); }
  int32_t& operator[](Lane lane) { return at_[static_cast<size_t>(lane)]; }
  int32_t operator[](Lane lane) const { return at_[static_cast<size_t>(lane)]; }
  bool operator==(const LaneMarks&) const = default;
  /// Returns the largest index over all lanes.
  int32_t newest() const;
  /// True if every lane's index is at most that of `done`.
  bool covered_by(const LaneMarks& done) const;
  void raise_to(const LaneMarks& other);

 private:
  std::array<int32_t, kLanes> at_;
};

/// A range of bytes of one space. Persistent slots are always live; every other slot is live from the first
/// to the last instruction that uses it.
struct Slot {
  std::string name;
  Category category = Category::kActivations;
  int64_t bytes = 0;
  bool persistent = false;
  Role role = Role::kOther;
  int32_t block = -1;             ///< the block whose state the slot holds
  int32_t first = -1, last = -1;  ///< first and last instruction that uses it; -1 if none does
  int64_t offset = -1;            ///< byte offset in its space
  Space space = Space::kArena;
  int64_t align = 64;         ///< alignment of the offset
  LaneMarks last_transfer{};  ///< for each lane, the last transfer that uses the slot
  bool in_arena() const { return space == Space::kArena; }
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
  int32_t block = -1;   ///< 0 is the embedding, 1..layers are the blocks, layers + 1 is the head
  int32_t bucket = -1;  ///< index of the group of blocks that are transferred together
  Lane lane = Lane::kCompute;
  bool experts = false;     ///< transfers experts (mesh.ep), among ranks that hold the same ones
  bool accumulate = false;  ///< adds to its gradients instead of overwriting them
  /// Overlaps with the next instruction: both run as fibers, so that one computes while exchanges of the
  /// other are in progress (base/fiber_pair.h). No instruction may come between them, and each holds the
  /// slots that the other uses.
  bool overlaps_next = false;
  /// The host takes part within the block: it counts the rows that go to experts of other ranks.
  bool host = false;
  std::vector<Use> uses;      ///< the operands that op_table.h lists for the op
  std::vector<SlotId> holds;  ///< slots kept alive, so that it need not wait for a transfer
  SlotId scratch = -1;        ///< workspace
  double flops = 0;
  int32_t work = -1;  ///< index in Plan::work; -1 if it calls no kernels
  /// Bytes that this rank sends, by the ring form of the operation (comm/ledger.h). For the compute lane
  /// these are the exchanges within the block and the sums over all ranks, which the instruction waits for.
  int64_t sent_bytes = 0;
  /// What an OFFLOAD or FETCH copies if it copies parts of its slots (parallel/host_update.h): the bytes of
  /// all parts, and their number. 0: the whole slot of the arena.
  int64_t moved_bytes = 0;
  int32_t moved_parts = 0;
  /// The exchanges within the block, in order; sent_bytes includes their bytes.
  std::vector<ExchangeNote> exchanges;
  /// For each lane, the last transfer that must finish before this instruction starts, computed from the
  /// arena bytes that both use.
  LaneMarks waits_for;

  /// True if the instruction runs beside the compute lane.
  bool is_transfer() const { return lane != Lane::kCompute; }
  /// True if the host's processor executes it, with the CPU's kernels and what is in host memory.
  bool on_host() const { return lane == Lane::kHost; }
  /// A slot of -1 means that the operand is absent.
  void read(Operand operand, SlotId slot) {
    if (slot >= 0) uses.push_back({operand, slot, false});
  }
  void write(Operand operand, SlotId slot) {
    if (slot >= 0) uses.push_back({operand, slot, true});
  }
  /// Returns the operand's slot (the first if it has several); -1 if it is absent.
  SlotId operator[](Operand operand) const {
    for (const Use& use : uses)
      if (use.operand == operand) return use.slot;
    return -1;
  }
  // Each returns slots in the order in which they were added, in a new vector.

  std::vector<SlotId> all(Operand operand) const;
  std::vector<SlotId> reads() const;
  std::vector<SlotId> writes() const;
};

/// True if the host takes part, so that a device cannot run the instruction ahead of the host.
inline bool needs_host(const Instruction& n) {
  const Host host = traits_of(n.op).host;
  return n.host || host == Host::kAlways || (host == Host::kWithoutBlock && n.block < 0);
}

}  // namespace hawser::plan
