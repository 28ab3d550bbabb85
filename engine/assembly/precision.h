// Precision of an engine: the data types of weights, gradients and moments, how products round their
// operands under precision fp8 (nn/fp8_operands.h), and the maxima that a step records.
#pragma once

#include <cstdint>

#include "engine/config/resolved_config.h"
#include "engine/nn/fp8_operands.h"
#include "engine/nn/parameter.h"
#include "engine/optim/fp8_history.h"

namespace hawser::train {

/// Data type of the weights that matrix products read.
DType compute_type(const config::ResolvedConfig& config);
/// Data type of masters, gradients and moments, and of weights that are looked up by token.
DType state_type(const config::ResolvedConfig& config);

/// Returns how the products of blocks round their operands.
nn::Fp8Operands fp8_operands(const config::ResolvedConfig& config);
/// Returns the number of operands whose maxima a step records, because later scales follow from them; else 0.
int64_t noted_fp8_operands(const config::ResolvedConfig& config, const nn::ParameterTable& table);
/// Returns the number of heads whose largest attention scores a step records, to clip them; else 0.
int64_t noted_head_scores(const config::ResolvedConfig& config, const nn::ParameterTable& table);
/// Returns the operands' maxima in earlier steps; disabled if scales do not follow from them.
optim::Fp8History fp8_history(const config::ResolvedConfig& config, const nn::ParameterTable& table);

}  // namespace hawser::train
