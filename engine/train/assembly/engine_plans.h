// The plans of an engine: what each call will run, and the bytes of everything, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"
#include "engine/parallel/shard_layout.h"
#include "engine/parallel/strategy.h"
#include "engine/plan/plan.h"
#include "kernels/include/table.h"

namespace hawser::train {

/// What plans must know of the device that will run them.
struct Target {
  const kernels::KernelTable* kernels = nullptr;
  int32_t workers = 1;          ///< of its streams
  bool in_place = true;         ///< the host works in its memory
  bool peers = false;           ///< transfers go from device to device
  int64_t transport_bytes = 0;  ///< of the host, which a rank's transport holds
};

/// Pinned memory of the host beside the arena, for what goes back and forth in a step; none where the device
/// is worked on in place.
struct PinnedBytes {
  int64_t step = 0;       ///< micro-batches, losses, scalars (StepMirror)
  int64_t transfers = 0;  ///< the largest transfer between ranks
  int64_t bytes() const { return step + transfers; }
};

/// The plans of one rank. All ranks of a mesh have the same ones: shards are padded to equal sizes.
struct EnginePlans {
  parallel::DataParallel strategy;
  plan::Plan train;  ///< no instructions for inference
  plan::Plan eval, logits, generate;
  int64_t arena_bytes = 0;  ///< the largest of them
  PinnedBytes pinned;
  bool peers = false;                  ///< the target's
  int64_t device_transport_bytes = 0;  ///< of the device, beside the arena: for sums of the largest transfer

  int64_t device_bytes() const { return arena_bytes + device_transport_bytes; }

  const plan::Plan& any() const { return eval; }  ///< for the persistent slots, which all share
};

/// Rows of one generation call at most: longer prompts go in pieces.
int64_t generate_rows(const config::ResolvedConfig& config);

/// Type of weights that matrix products read.
DType compute_type(const config::ResolvedConfig& config);
/// Type of what the optimizer works on (masters, gradients, moments), and of weights that are looked up.
DType state_type(const config::ResolvedConfig& config);

/// What look-ups of one step add to a tied embedding's gradient.
nn::LookupGradient::Sizes lookup_gradient_sizes(const nn::Model& model, const config::ResolvedConfig& config);

/// The CPU kernels that `config` chooses on this machine. Throws kConfigInvalid.
const kernels::KernelTable& choose_kernels(const config::ResolvedConfig& config);
/// Threads of each of `ranks` ranks that share this process.
int32_t choose_threads(const config::ResolvedConfig& config, int32_t ranks);

mesh::DeviceMesh mesh_of(const config::ResolvedConfig& config);
/// How the config's ranks share a model.
parallel::DataParallel choose_strategy(const config::ResolvedConfig& config);
/// What `rank` of the world keeps.
parallel::ShardLayout::Options layout_options(const config::ResolvedConfig& config,
                                              const parallel::DataParallel& strategy, int64_t rank,
                                              bool inference);

EnginePlans make_plans(const nn::Model& model, const config::ResolvedConfig& config, const Target& target,
                       bool inference);

}  // namespace hawser::train
