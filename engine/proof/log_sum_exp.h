// log_sum_exp: computes log(sum(exp(z))) for any number type. The greatest z is subtracted first, as a
// constant, so that nothing overflows.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/reference_number.h"

namespace hawser::train {

template <class T>
T log_sum_exp(const std::vector<T>& z) {
  using kernels::real_part, std::exp, std::log;  // or the functions in the number's own namespace
  double max = real_part(z[0]);
  for (const T& value : z) max = std::max(max, real_part(value));
  T sum = T(0);
  for (const T& value : z) sum += exp(value - max);
  return max + log(sum);
}

}  // namespace hawser::train
