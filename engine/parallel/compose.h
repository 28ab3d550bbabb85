// Compose: makes the strategies of a config, in order. Only this file names them all; assembly, ranks and
// reports iterate over them. Each strategy is an object with the same few parts: how it shapes a step, what
// it requires of layouts, its sizes, its passes over the plan, its runtime (groups, wires, store, memory
// outside the arena), and its words in the report. So a new strategy is a file of its own and an object here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/hash.h"
#include "engine/comm/comm.h"
#include "engine/mesh/mesh.h"
#include "engine/nn/local_columns.h"
#include "engine/nn/model.h"
#include "engine/parallel/block_exchanges.h"
#include "engine/parallel/bucket_runtime.h"
#include "engine/parallel/expert_parallel.h"
#include "engine/parallel/offload.h"
#include "engine/parallel/parallel_config.h"
#include "engine/parallel/pipeline/stages.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"

namespace hawser::parallel {

/// The input of compose. Everything that it refers to must outlive the strategies.
struct Settings {
  const ParallelConfig& config;
  const nn::ModelConfig& model;
  const nn::MoeTraining& moe;
  int64_t micro_batch = 1;    ///< rows
  int64_t micro_batches = 1;  ///< micro-batches of one rank in the largest step
  int64_t sequence = 1;       ///< tokens of a row
  bool saves_beside_steps = false;
};

/// The form of a step: everything that the rest of the engine needs to know about the strategies.
struct StepForm {
  DataParallelStrategy data;      ///< without stage_of, which depends on the model's costs
  nn::LocalColumns columns = {};  ///< columns of each row on the first of the ranks that divide it
  bool shares_rows = false;       ///< several ranks compute the same rows, or different columns of them
  bool shares_blocks = false;     ///< ranks exchange data inside blocks
  bool sums_in_chunks = false;    ///< exchanges inside blocks run while the rank computes (mesh.tp_chunks)
  /// Two instructions run as fibers, so that one computes while the other waits for ranks.
  bool overlaps_instructions = false;
  nn::BackwardForm backward;
  ExpertRound expert_round;
  int64_t eval_micro_batches = 1;    ///< evaluated at the same time: one for each stage
  int64_t expert_micro_batches = 1;  ///< between a forward and its backward, on ranks that divide experts
};

/// Memory that strategies need outside the arena.
struct BesideArena {
  int64_t offload = 0;          ///< pinned memory: the host's space, and staging for copies to a file
  int64_t counts = 0;           ///< pinned memory for the numbers of rows that go to experts
  int64_t device_messages = 0;  ///< device memory for the first byte of each lane between stages
  int64_t snapshots = 0;        ///< of the rank's file, for saves beside steps
};
/// The plans of a rank, by which strategies size that memory.
struct PlannedStep {
  std::vector<const plan::Plan*> plans;
  plan::BytesBySpace outside{};  ///< bytes of all plans outside the arena
  int64_t expert_calls = 0;      ///< calls for which the host remembers numbers of rows
  bool in_place = true;          ///< the host works in the device's memory
  bool peers = false;            ///< transfers go from device to device
};

/// The rank that makes its groups.
struct RankPlace {
  const ShardLayout& layout;
  int32_t rank = 0;
  bool training = true;
  bool peers = false;                         ///< as in PlannedStep
  std::vector<const plan::Plan*> plans = {};  ///< all plans; some may be empty
};
/// A group that a strategy needs on a rank.
struct GroupWish {
  /// What carries the calls of the group. All but kHosts go from device to device if transfers do.
  enum class Over : uint8_t { kHosts, kTransfers, kBlocks, kOverlapped, kMessages };
  std::unique_ptr<comm::ProcessGroup>* to = nullptr;
  comm::GroupRequest request;
  Over over = Over::kHosts;
  plan::Lane lane = plan::Lane::kCompute;  ///< kMessages
};
/// The lane of exchanges inside blocks. Over the hosts its calls run at once, because a block waits for each,
/// unless it sums in chunks.
comm::Lane block_lane(bool in_chunks);
/// The lane of exchanges during which the rank may compute.
comm::Lane overlapped_lane();

/// The purpose of a plan.
enum class Purpose : uint8_t {
  kTrain,
  kAnswer,   ///< evaluates, predicts or generates
  kPublish,  ///< gives all ranks weights that changed outside a step
};

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void shape(StepForm* /*form*/) const {}
  /// Throws kConfigInvalid if the strategy has no effect on such a device. The arguments are those of
  /// PlannedStep.
  virtual void require_effect(bool /*in_place*/, bool /*peers*/) const {}
  virtual void lay_out(ShardLayout::Options* /*options*/, const DataParallelStrategy& /*data*/,
                       const StepForm& /*form*/) const {}
  virtual void add_sizes(plan::Sizes* /*sizes*/, bool /*in_place*/) const {}
  virtual void shape_stage(const plan::Sizes& /*sizes*/, plan::Stage* /*stage*/) const {}
  /// Inserts the strategy's instructions into a plan.
  virtual void pass(plan::Plan* /*plan*/, const ShardLayout& /*layout*/, const DataParallelStrategy& /*data*/,
                    Purpose /*purpose*/) const {}
  virtual void reserve(const PlannedStep& /*step*/, BesideArena* /*bytes*/) const {}
  virtual void add_groups(const RankPlace& /*place*/, const StepForm& /*form*/,
                          DataParallelGroups* /*groups*/, std::vector<GroupWish>* /*wishes*/) const {}
  virtual void add_exchanges(const StepForm& /*form*/, const BlockExchanges::MakeWire& /*make_wire*/,
                             const ExpertHost& /*host*/, BlockExchanges* /*exchanges*/) const {}
  /// The memory outside the arena; all parts are null if the strategy stores nothing there.
  virtual OutsideArena outside_arena(const PlannedStep& /*step*/, const device::HostLink& /*link*/,
                                     char* /*staging*/) const {
    return {};
  }
  /// Adds what makes a rank call others differently, so that ranks can compare it.
  virtual void add_to(Hash* /*hash*/) const {}
  /// The strategy's sentence in the report, after ". "; "" if the config does not use the strategy.
  virtual std::string words() const { return ""; }
};

/// Strategies: the strategies of a config, each of whose parts is called in order.
class Strategies {
 public:
  Strategies(const Settings& settings, std::vector<std::unique_ptr<Strategy>> all);
  ~Strategies();

  const StepForm& form() const { return form_; }
  const mesh::DeviceMesh& mesh() const { return mesh_; }

  void require_effect(bool in_place, bool peers) const;
  void lay_out(ShardLayout::Options* options, const DataParallelStrategy& data) const;
  void add_sizes(plan::Sizes* sizes, bool in_place) const;
  void pass(plan::Plan* plan, const ShardLayout& layout, const DataParallelStrategy& data,
            Purpose purpose) const;
  BesideArena beside_arena(const PlannedStep& step) const;
  std::vector<GroupWish> groups(const RankPlace& place, DataParallelGroups* groups) const;
  BlockExchanges exchanges(const BlockExchanges::MakeWire& make_wire, const ExpertHost& host = {}) const;
  OutsideArena outside_arena(const PlannedStep& step, const device::HostLink& link, char* staging) const;
  std::string words() const;
  void add_to(Hash* hash) const;

  /// Exchanges that move nothing and note what they would send. `overlaps`: an exchange that is begun can run
  /// while the rank computes.
  /// `imbalance`: the rows of the busiest rank's experts over the mean of all ranks.
  BlockExchanges counted_exchanges(ExchangeNotes* notes, bool overlaps, double imbalance) const;
  /// Exchanges of `rank` that move nothing, without notes.
  BlockExchanges dry_exchanges(int64_t rank) const;
  /// The host's numbers of rows for experts, in pinned `memory`; if it is null, the host reads the device's.
  ExpertHost expert_host(device::HostLink* link, char* memory, int64_t calls) const;

  /// Divides a model of these costs into the stages of the pipeline; one stage if there is no pipeline.
  pipeline::Division divide(const plan::Sizes& sizes) const;
  /// Returns a stage of that division, with the actions of a step of `micro_batches`.
  /// `sent_lifetime_actions`: as in plan::Stage.
  plan::Stage stage(const pipeline::Division& division, const plan::Sizes& sizes, int64_t number,
                    size_t sent_lifetime_actions, int64_t micro_batches) const;
  int64_t stage_of(int64_t rank) const { return mesh_.coordinate(rank, mesh::Axis::kPp); }
  /// The first rank of a stage.
  int64_t first_of_stage(int64_t stage) const { return mesh_.at(0, mesh::Axis::kPp, stage); }
  int64_t stages() const { return mesh_.degree(mesh::Axis::kPp); }
  /// Ranks of a stage that read the same rows, or different columns of them.
  int64_t ranks_of_row() const { return mesh_.degree(mesh::Axis::kTp) * mesh_.degree(mesh::Axis::kCp); }
  /// True if no lower rank of the stage reads the same rows.
  bool counts_rows(int64_t rank) const { return mesh_.coordinate(rank, mesh::Axis::kTp) == 0; }
  /// True if no lower rank of the stage reads the same rows or other columns of them.
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

/// The modules of the config's model, each with the part of its parameters that one rank has. The other
/// arguments are those of nn::Model.
nn::Model local_model(const Settings& settings, bool scale_residual, const nn::TrainedParts& parts,
                      int64_t tile_rows);

}  // namespace hawser::parallel
