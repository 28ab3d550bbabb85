// Stage planner: makes the plans of one stage of a pipeline.
#pragma once

#include "engine/assembly/engine_plans.h"
#include "engine/parallel/block_exchanges.h"
#include "engine/plan/serial.h"

namespace hawser::train {

/// The inputs that the planners of all stages share. This struct and all that it refers to must outlive them.
struct PipelineForm {
  const nn::Model& model;
  const config::ResolvedConfig& config;
  const Target& target;
  bool inference;
  const parallel::Strategies& strategies;
  const parallel::BlockExchanges& exchanges;
  const plan::Sizes& sizes;           ///< without the sizes of any stage's state
  const plan::Sizes& without_blocks;  ///< `sizes` without costs of blocks
  const parallel::pipeline::Division& division;
  parallel::DataParallelStrategy data;  ///< with stage_of set
};

/// Returns the sizes without costs of blocks, for PipelineForm::without_blocks.
plan::Sizes without_costs_of_blocks(plan::Sizes sizes);

class StagePlanner {
 public:
  StagePlanner(const PipelineForm& form, int64_t stage);

  /// Returns the plan of the largest step, before memory and waits are assigned; empty for inference.
  /// `sent_lifetime`: plan::Stage::sent_lifetime_actions.
  plan::Plan training(size_t sent_lifetime) const;
  /// Makes all plans. `training`: what training() returned for this lifetime; its first instructions may have
  /// memory and waits (plan/early_plan.h).
  EnginePlans all(plan::Plan training, size_t sent_lifetime) const;

 private:
  plan::Plan training_of(int64_t micro_batches, size_t sent_lifetime) const;
  plan::Stage stage_of(int64_t micro_batches, size_t sent_lifetime) const {
    return form_.strategies.stage(form_.division, form_.sizes, number_, sent_lifetime, micro_batches);
  }
  void finish(EnginePlans* plans) const;
  void add_memory(EnginePlans* plans) const;

  const PipelineForm& form_;
  const int64_t number_;
  const parallel::ShardLayout layout_;
  plan::Sizes sizes_;
};

/// Returns the order in which a step sums gradients. `most`: micro-batches of the largest step; all steps
/// reduce gradients in the same way.
plan::Accumulation accumulation_of(const parallel::DataParallelStrategy& strategy, int64_t most);

}  // namespace hawser::train
