// Magnitudes of the rows of an adapter's weight (DoRA, Liu et al., arXiv:2402.09353), of one part of a
// linear.
//
//   y = m / n z + bias,  z = W x + s B A x,  n = |W + s B A| by row, a constant in backward
//   dz = m / n dy,  dm = sum over rows of dy z / n
//
// Norms are made again in each of forward and the two halves of backward, which costs 2 rank in out
// operations, as a product with `rank` rows does; z is made again in the second half, so nothing is saved.
// Norms are of the weights that products read, so the m of a new adapter, which is that norm, gives a factor
// of exactly 1 (kernels/include/magnitude.h). Ranks that divide the inputs sum their squares.
#pragma once

#include <string>

#include "engine/nn/context.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Magnitude {
 public:
  Magnitude() = default;  ///< none
  /// Of prefix.weight, which has an adapter; `module` owns its A.
  Magnitude(const ParameterTable& table, const std::string& prefix, const std::string& module);
  explicit operator bool() const { return static_cast<bool>(m_); }

  /// The factors of the columns, in the workspace. `weight`: [out, in], activation type.
  kernels::Magnitudes factors(const Context& ctx, const void* weight) const;
  /// Null if it is frozen.
  float* gradient(const Context& ctx) const { return ctx.gradient(m_); }

 private:
  Place m_, a_, b_;
  int64_t out_ = 0, in_ = 0, rank_ = 0;
  float scale_ = 0;
  bool cuts_inputs_ = false;
};

}  // namespace hawser::nn
