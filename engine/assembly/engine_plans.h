// The plans of an engine: what each call will run and the bytes of every slot, known before anything is
// allocated.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "engine/config/resolved_config.h"
#include "engine/execute/expert_calls.h"
#include "engine/nn/model.h"
#include "engine/parallel/bucket_runtime.h"
#include "engine/parallel/compose.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"
#include "engine/plan/stage.h"
#include "kernels/include/table.h"

namespace hawser::train {

/// What the plans need to know about the device that runs them.
struct Target {
  const kernels::KernelTable* kernels = nullptr;
  int32_t workers = 1;          ///< threads of its streams
  bool in_place = true;         ///< the host reads and writes its memory directly
  bool peers = false;           ///< transfers go from device to device, without the host
  int64_t transport_bytes = 0;  ///< host memory of a rank's transport
  bool captures = false;        ///< it can capture work as graphs
  double imbalance = 1;         ///< predicted rows of the busiest rank's experts, over the mean of all ranks
};

/// Pinned host memory beside the arena, for copies to and from the device in a step. None for a device that
/// the host works on in place.
struct PinnedBytes {
  int64_t step = 0;                ///< micro-batches, losses, scalars (StepMirror)
  int64_t transfers = 0;           ///< the largest transfer between ranks
  int64_t counts = 0;              ///< of rows for experts that ranks divide (parallel/expert_parallel.h)
  int64_t exchange = 0;            ///< the largest exchange inside a block
  parallel::LaneBytes messages{};  ///< the largest message of each lane between stages, several at a time
  int64_t offload = 0;             ///< the host's space outside the arena, and staging for files
  int64_t before_exchange() const { return step + transfers + counts; }
  int64_t before_messages(plan::Lane lane) const {
    return before_exchange() + exchange + message_bytes(static_cast<size_t>(lane));
  }
  int64_t bytes() const { return before_exchange() + exchange + message_bytes(plan::kLanes) + offload; }

 private:
  /// Of the first `lanes` lanes.
  int64_t message_bytes(size_t lanes) const {
    return std::accumulate(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(lanes),
                           int64_t{0});
  }
};

/// The plans of one rank. All ranks of a stage of the pipeline have the same plans, because shards are padded
/// to equal sizes.
struct EnginePlans {
  parallel::DataParallelStrategy strategy;
  plan::Stage stage;                      ///< of the pipeline; the whole model if there is none
  plan::Plan train;                       ///< of the largest step; empty for inference
  std::vector<plan::Plan> smaller_train;  ///< of the other sizes of a batch ramp, by micro-batches, ascending
  plan::Plan eval, logits, generate;
  plan::Plan eval_pipeline;  ///< of eval_micro_batches; empty without a pipeline
  plan::Plan publish;        ///< after weights changed outside a step; often without instructions
  int64_t arena_bytes = 0;   ///< enough for any of the plans
  PinnedBytes pinned;
  bool peers = false;  ///< copied from Target
  /// Device memory beside the arena, for the sums of the largest transfer and of the largest exchange inside
  /// a block.
  int64_t device_transport_bytes = 0;
  int64_t device_exchange_bytes = 0;  ///< the latter alone
  int64_t device_message_bytes = 0;   ///< for the first byte of each lane between stages; included above

  plan::BytesBySpace outside{};  ///< outside the arena, enough for any of the plans
  int64_t snapshot_bytes = 0;    ///< of the rank's file, for asynchronous saves

  int64_t device_bytes() const { return arena_bytes + device_transport_bytes; }

  /// The plan of training steps of `micro_batches`, a number of the config's batch.
  const plan::Plan& train_of(int64_t micro_batches) const {
    for (const plan::Plan& plan : smaller_train)
      if (plan.micro_batches == micro_batches) return plan;
    return train;
  }

  const plan::Plan& any() const { return eval; }  ///< for its persistent slots, which all plans share
};

/// Calls fn(plan) for all plans, of which some may be empty: those of training steps first.
template <class Plans, class Fn>
void for_each_plan(Plans& plans, Fn&& fn) {
  fn(plans.train);
  for (auto& plan : plans.smaller_train) fn(plan);
  for (auto* const plan : {&plans.eval, &plans.eval_pipeline, &plans.logits, &plans.generate, &plans.publish})
    fn(*plan);
}

/// A rank's share of the config's model. `tile_rows`: as in nn::Model.
nn::Model model_of(const config::ResolvedConfig& config, int64_t tile_rows = 1);

/// How the ranks of the config share the model, and what a step does to save memory. `config` must outlive
/// them.
parallel::Strategies strategies_of(const config::ResolvedConfig& config);

/// Micro-batches of the plan that has most.
int64_t most_micro_batches(const config::ResolvedConfig& config, const parallel::StepForm& form,
                           bool inference);

/// What strategies size their memory by.
parallel::PlannedStep planned_step(const EnginePlans& plans, const parallel::StepForm& form, bool in_place);

/// Most rows of one generation call. Longer prompts are processed in pieces.
int64_t generate_rows(const config::ResolvedConfig& config);

/// Whether checkpoints leave out the frozen weights that an adapter works on, because a folder has them
/// (/init/from).
inline bool base_is_elsewhere(const config::ResolvedConfig& config) {
  return config.model.adapter.on() && !config.init.from.empty();
}

/// Sizes of what one step's look-ups add to the gradient of a tied embedding.
nn::LookupGradient::Sizes lookup_gradient_sizes(const nn::Model& model, const config::ResolvedConfig& config,
                                                const parallel::StepForm& form);

/// The CPU kernels that `config` selects on this machine. Throws kConfigInvalid.
const kernels::KernelTable& choose_kernels(const config::ResolvedConfig& config);
/// Threads of each of `ranks` ranks that share this process.
int32_t choose_threads(const config::ResolvedConfig& config, int32_t ranks);

/// True if the kernels of layers write gradients in the stored type, which is narrower than f32, so that they
/// need no window: a step has one micro-batch, and one product over all rows computes each gradient of a
/// projection. With experts, latent attention, adapters or rows in tiles, several kernels may add to an f32
/// gradient.
bool rounds_in_kernels(const config::ResolvedConfig& config, const parallel::Strategies& strategies);

/// What `rank` (a number in the world) stores. `data`: that of `strategies`, with the stages of the model.
parallel::ShardLayout::Options layout_options(const config::ResolvedConfig& config,
                                              const parallel::Strategies& strategies,
                                              const parallel::DataParallelStrategy& data, int64_t rank,
                                              bool inference);

/// The plans of each stage of the pipeline; one if there is none.
std::vector<EnginePlans> make_stage_plans(const nn::Model& model, const config::ResolvedConfig& config,
                                          const Target& target, bool inference);
/// Those of the first stage.
EnginePlans make_plans(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                       bool inference);

}  // namespace hawser::train
