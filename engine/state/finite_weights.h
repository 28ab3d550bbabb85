// Finite weights: checks that a model's initial weights are finite. A NaN among them would reach every loss,
// and NF4 would store it as a finite number.
#pragma once

#include <cstdint>
#include <string>

#include "engine/nn/nf4.h"
#include "engine/nn/parameter.h"

namespace hawser::train {

/// Throws kNumeric if one of elements [first, first + n) of p, which came from `folder`, is NaN or
/// infinite. The message names the element.
void require_finite(const std::string& folder, const nn::Parameter& p, int64_t first, const float* values,
                    int64_t n);
/// Throws kNumeric if a scale of a tensor that the folder has in 4 bits is NaN or infinite.
void require_finite(const std::string& folder, const nn::Parameter& p, const nn::Nf4Tensor& tensor);

}  // namespace hawser::train
