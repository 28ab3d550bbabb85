#include "engine/optim/grad_norm.h"

#include <algorithm>
#include <cmath>

namespace hawser::optim {
namespace {

int64_t blocks_of(const nn::Parameter& p) { return (p.size + kernels::kNormBlock - 1) / kernels::kNormBlock; }

}  // namespace

int64_t grad_norm_partials(const nn::ParameterTable& table) {
  int64_t most = 0;
  for (const nn::Parameter& p : table.all()) most = std::max(most, blocks_of(p));
  return most;
}

double grad_norm(const nn::ParameterTable& table, const float* gradients, double* partial,
                 const kernels::KernelTable& kernels, Stream& stream) {
  double sum = 0;
  for (const nn::Parameter& p : table.all()) {
    kernels.sum_of_squares({partial, gradients + p.offset, p.size}, stream);
    double parameter_sum = 0;
    for (int64_t i = 0; i < blocks_of(p); ++i) parameter_sum += partial[i];
    sum += parameter_sum;
  }
  return std::sqrt(sum);
}

}  // namespace hawser::optim
