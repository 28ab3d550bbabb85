// Model variants: small models of every variant that a config can select, and a batch for each.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "engine/config/resolved_config.h"
#include "engine/proof/reference_model.h"

namespace hawser::testing {

using train::ReferenceBatch;

struct ModelVariant {
  std::string name;
  std::string model;  ///< the config's model section, JSON
  int64_t micro_batch = 2, grad_accum_steps = 1, sequence = 9;
  bool documents = false;    ///< packed documents
  std::string moe = {};      ///< the config's moe section, JSON; empty: none
  std::string adapter = {};  ///< the config's adapter section, JSON; empty: none
  bool new_adapter = false;  ///< its B is zero
};

inline void PrintTo(const ModelVariant& variant, std::ostream* out) { *out << variant.name; }

const std::vector<ModelVariant>& model_variants();
/// Returns models with a score head, whose rows form pairs: for tests that take whole steps.
std::vector<ModelVariant> score_variants();
/// Returns models that also predict tokens further ahead: for tests that take whole steps.
std::vector<ModelVariant> ahead_variants();
/// Returns the variants in which everything is trained.
std::vector<ModelVariant> whole_variants();

/// Returns the complete config, JSON. max_isa: a CPU level's name.
std::string variant_config(const ModelVariant& variant, const std::string& max_isa, int32_t threads = 1,
                           bool bf16 = false);
/// Resolves that config.
config::ResolvedConfig resolve_variant(const ModelVariant& variant);

/// Returns a global batch with some masked targets (more in the second row, so that micro-batches have
/// different weights).
ReferenceBatch variant_batch(const ModelVariant& variant, int64_t vocab_size);

/// Returns how many elements of a parameter of a block products multiply for one token: of experts, those
/// that one token chooses, and of their output biases all.
int64_t multiplied_elements(const nn::Parameter& p, const nn::ModelConfig& model);

/// Returns weights in the flat layout (model_memory.h), far from any special value (norm weights and biases
/// too), the same every time, with an adapter or without. `new_adapter`: all B are zero, and magnitudes are
/// those of the weights rounded to `type`.
std::vector<float> variant_weights(const nn::ParameterTable& table, double norm_weight_offset,
                                   bool new_adapter = false, DType type = DType::kF32);

}  // namespace hawser::testing
