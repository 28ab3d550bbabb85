// Initial magnitudes: the norms of the weights as matrix products read them (nn/magnitude.h), so that a new
// adapter changes no bit.
#pragma once

#include <vector>

#include "engine/base/dtype.h"
#include "engine/nn/adapter_factors.h"

namespace hawser::train {

/// Returns the norm of each row. `numbers`: all elements of the weight. `read_as`: the type of the
/// operands of matrix products.
std::vector<float> initial_magnitudes(const nn::Parameter& weight, std::vector<float> numbers, DType read_as);

/// Calls fn(weight, its magnitudes) for every weight that has magnitudes.
template <typename Fn>
void each_magnitude(const nn::ParameterTable& table, Fn fn) {
  for (const nn::Parameter& p : table.all())
    if (const nn::Parameter* const m = nn::adapter_factors(table, p).m) fn(p, *m);
}

}  // namespace hawser::train
