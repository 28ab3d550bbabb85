// Magnitude: trained magnitudes of the rows of an adapter's weight (DoRA, Liu et al., arXiv:2402.09353), for
// one part of a linear.
//
//   y = m / n z + bias,  z = W x + s B A x,  n = |W + s B A| by row, a constant in backward
//   dz = m / n dy,  dm = sum over rows of dy z / n
//
// Norms are recomputed in forward and in both passes of backward, which costs 2 rank in out operations, as
// much as a product with `rank` rows; z is recomputed in the weight pass, so nothing is saved. Norms are
// those of the weights that products read. The initial m of an adapter is that norm, so it gives a factor of
// exactly 1 (kernels/include/magnitude.h). Ranks that divide the inputs sum their squares.
#pragma once

#include <string>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Magnitude {
 public:
  Magnitude() = default;  ///< no magnitudes
  /// Takes the magnitudes of prefix.weight, which has an adapter; `module` owns its A.
  Magnitude(const ParameterTable& table, const std::string& prefix, const std::string& module);
  explicit operator bool() const { return static_cast<bool>(m_); }

  /// Returns the factors of the columns, in the workspace. `weight`: [out, in], activation type.
  kernels::Magnitudes factors(const Context& ctx, const void* weight) const;
  /// Returns null if the magnitudes are frozen.
  float* gradient(const Context& ctx) const { return ctx.gradient(m_); }

 private:
  Place m_, a_, b_;
  int64_t out_ = 0, in_ = 0, rank_ = 0;
  float scale_ = 0;
  bool cuts_inputs_ = false;
};

}  // namespace hawser::nn
