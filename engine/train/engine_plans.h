// The plans of an engine: what each call will run, and the bytes of everything, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "engine/config/resolved_config.h"
#include "engine/nn/model.h"
#include "engine/plan/plan.h"
#include "kernels/include/table.h"

namespace hawser::train {

struct EnginePlans {
  plan::Plan train;  ///< no instructions for inference
  plan::Plan eval, logits, generate;
  int64_t arena_bytes = 0;  ///< the largest of them

  const plan::Plan& any() const { return eval; }  ///< for the persistent slots, which all share
};

/// Rows of one generation call at most: longer prompts go in pieces.
int64_t generate_rows(const config::ResolvedConfig& config);

/// Type of weights and branch activations.
DType compute_type(const config::ResolvedConfig& config);

/// The kernels that `config` chooses on this machine. Throws kConfigInvalid, kDeviceUnavailable.
const kernels::KernelTable& choose_kernels(const config::ResolvedConfig& config);
int32_t choose_threads(const config::ResolvedConfig& config);

EnginePlans make_plans(const nn::Model& model, const config::ResolvedConfig& config,
                       const kernels::KernelTable& kernels, int32_t threads, bool inference);

/// Throws kOutOfMemory unless `plans` fit into the memory available, with what each smaller setting would
/// save.
void check_memory(const EnginePlans& plans, const nn::Model& model, const config::ResolvedConfig& config,
                  const kernels::KernelTable& kernels, int32_t threads, bool inference);

}  // namespace hawser::train
