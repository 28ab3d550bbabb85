// Weights that a model begins with must be finite: a NaN among them reaches every loss, and NF4 would keep it
// as a number.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/nf4.h"
#include "engine/nn/parameter.h"

namespace hawser::train {

/// Throws kNumeric if one of elements [first, first + n) of p, which came from `folder`, is NaN or infinite:
/// which one.
void require_finite(const std::string& folder, const nn::Parameter& p, int64_t first, const float* values,
                    int64_t n);
/// The same of the scales of a tensor that the folder has in 4 bits.
void require_finite(const std::string& folder, const nn::Parameter& p, const nn::Nf4Tensor& tensor);

}  // namespace hawser::train
