// Compose: the strategies of a config, in order. This is the one place that names them: assembly, ranks and
// reports go through them all and know none. Each strategy is an object with the same few parts: what it
// makes of a step, what it asks of layouts, its sizes, its passes over the plan, its runtime (groups, wires,
// store, memory beside the arena), and its words in the report.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/mesh/mesh.h"
#include "engine/nn/local_columns.h"
#include "engine/nn/model.h"
#include "engine/parallel/block_exchanges.h"
#include "engine/parallel/bucket_runtime.h"
#include "engine/parallel/expert_parallel.h"
#include "engine/parallel/offload_store.h"
#include "engine/parallel/parallel_config.h"
#include "engine/parallel/pipeline/stages.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// What strategies are made from. What it refers to must outlive them.
struct Settings {
  const ParallelConfig& config;
  const nn::ModelConfig& model;
  const nn::MoeTraining& moe;
  int64_t micro_batch = 1;    ///< rows
  int64_t micro_batches = 1;  ///< of a rank in a step
  int64_t sequence = 1;       ///< tokens of a row
};

/// What the strategies together make of a step.
struct StepForm {
  DataParallel data;              ///< without stage_of, which depends on the model's costs
  nn::LocalColumns columns = {};  ///< of each row, on the first of the ranks that divide it
  bool shares_rows = false;       ///< several ranks compute the same rows, or columns of them
  bool shares_blocks = false;     ///< ranks exchange something inside blocks
  bool pairs = false;             ///< two halves of a pair of actions take turns, because one waits for ranks
  nn::BackwardForm backward;
  ExpertRound expert_round;
  int64_t eval_micro_batches = 1;    ///< evaluated at the same time: one for each stage
  int64_t expert_micro_batches = 1;  ///< between a forward and its backward, on ranks that divide experts
  plan::Space offload_to = plan::Space::kArena;  ///< where activations go in training; kArena: nowhere
};

/// Memory beside the arena.
struct BesideArena {
  int64_t offload = 0;          ///< pinned: the other space, or what stages copies to it
  int64_t counts = 0;           ///< pinned: of rows for experts
  int64_t device_messages = 0;  ///< device memory: the first byte of each lane between stages
};
/// The plans that it is for.
struct PlannedStep {
  const plan::Plan& train;    ///< empty for inference
  int64_t offload_bytes = 0;  ///< in the other space
  int64_t expert_calls = 0;   ///< whose counts the host remembers
  bool in_place = true;       ///< the host works in the device's memory
  bool peers = false;         ///< transfers go from device to device
};

/// A rank whose groups are made.
struct RankPlace {
  const ShardLayout& layout;
  int32_t rank = 0;
  bool training = true;
  bool peers = false;                         ///< as in PlannedStep
  std::vector<const plan::Plan*> plans = {};  ///< all, empty ones too
};
/// A group that a rank makes.
struct GroupWish {
  /// What carries its calls: the hosts, or if all transfers do, devices, in which lane.
  enum class Over : uint8_t { kHosts, kTransfers, kBlocks, kOverlapped, kMessages };
  std::unique_ptr<comm::ProcessGroup>* to = nullptr;
  comm::GroupRequest request;
  Over over = Over::kHosts;
  plan::Lane lane = plan::Lane::kCompute;  ///< kMessages
};
/// The lane of exchanges inside blocks. Over the hosts its calls run at once, because a block waits for each.
comm::Lane block_lane();
/// That of exchanges during which the rank may compute.
comm::Lane overlapped_lane();

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void shape(StepForm* /*form*/) const {}
  /// Throws kConfigInvalid if it does nothing on such a device.
  virtual void require_effect(bool /*in_place*/) const {}
  virtual void lay_out(ShardLayout::Options* /*options*/, const DataParallel& /*data*/) const {}
  virtual void add_sizes(plan::Sizes* /*sizes*/, bool /*in_place*/) const {}
  /// A pass over a plan; `training`: the train plan.
  virtual void pass(plan::Plan* /*plan*/, const ShardLayout& /*layout*/, const DataParallel& /*data*/,
                    bool /*training*/) const {}
  virtual void reserve(const PlannedStep& /*step*/, BesideArena* /*bytes*/) const {}
  virtual void add_groups(const RankPlace& /*place*/, const StepForm& /*form*/,
                          DataParallelGroups* /*groups*/, std::vector<GroupWish>* /*wishes*/) const {}
  virtual void add_exchanges(const StepForm& /*form*/, const BlockExchanges::MakeWire& /*make_wire*/,
                             const ExpertHost& /*host*/, BlockExchanges* /*exchanges*/) const {}
  /// Null: it has none.
  virtual std::unique_ptr<OffloadStore> make_store(const PlannedStep& /*step*/,
                                                   const device::HostLink& /*link*/,
                                                   char* /*staging*/) const {
    return nullptr;
  }
  /// A part of a sentence in the report that begins with ". "; "" if there is nothing to say.
  virtual std::string words() const { return ""; }
};

/// All strategies, as one.
class Strategies {
 public:
  Strategies(const Settings& settings, std::vector<std::unique_ptr<Strategy>> all);

  const StepForm& form() const { return form_; }
  const mesh::DeviceMesh& mesh() const { return mesh_; }

  void require_effect(bool in_place) const;
  void lay_out(ShardLayout::Options* options, const DataParallel& data) const;
  void add_sizes(plan::Sizes* sizes, bool in_place) const;
  void pass(plan::Plan* plan, const ShardLayout& layout, const DataParallel& data, bool training) const;
  BesideArena beside_arena(const PlannedStep& step) const;
  std::vector<GroupWish> groups(const RankPlace& place, DataParallelGroups* groups) const;
  BlockExchanges exchanges(const BlockExchanges::MakeWire& make_wire, const ExpertHost& host = {}) const;
  std::unique_ptr<OffloadStore> make_store(const PlannedStep& step, const device::HostLink& link,
                                           char* staging) const;
  std::string words() const;

  /// Exchanges that move nothing and write down what they would. `overlaps`: what is begun can be carried
  /// while the rank computes.
  BlockExchanges counted_exchanges(ExchangeNotes* notes, bool overlaps) const;
  /// The same for `rank`, without notes.
  BlockExchanges dry_exchanges(int64_t rank) const;
  /// Pinned memory for the counts of experts' rows; without memory, the host reads the device's.
  ExpertHost expert_host(device::HostLink* link, char* memory, int64_t calls) const;

  /// How the pipeline divides a model of these costs; one stage if there is none.
  pipeline::Division divide(const plan::Sizes& sizes) const;
  int64_t stage_of(int64_t rank) const { return mesh_.coordinate(rank, mesh::Axis::kPp); }
  /// The first rank of a stage.
  int64_t first_of_stage(int64_t stage) const { return mesh_.at(0, mesh::Axis::kPp, stage); }
  int64_t stages() const { return mesh_.degree(mesh::Axis::kPp); }
  /// Whether no lower rank of its stage reads the same rows.
  bool counts_rows(int64_t rank) const { return mesh_.coordinate(rank, mesh::Axis::kTp) == 0; }
  /// The same for its columns.
  bool is_first_of_row(int64_t rank) const {
    return counts_rows(rank) && mesh_.coordinate(rank, mesh::Axis::kCp) == 0;
  }
  /// Ranks with equal numbers give their devices the same calls.
  int64_t kind_of_calls(int64_t rank) const;

 private:
  Settings settings_;
  mesh::DeviceMesh mesh_;
  std::vector<std::unique_ptr<Strategy>> all_;
  StepForm form_;
};

/// The strategies of a config in the order of their passes.
Strategies compose(const Settings& settings);

}  // namespace hawser::parallel
