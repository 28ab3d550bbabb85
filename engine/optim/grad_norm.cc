#include "engine/optim/grad_norm.h"

#include <cmath>

#include "engine/mesh/flat_shard.h"

namespace hawser::optim {

static_assert(kernels::kNormBlock == mesh::kShardAlign, "a shard must begin at a block of the norm");

void add_squares(ExactSum* sum, const void* gradients, DType type, int64_t n, ExactSum* workspace,
                 const kernels::KernelTable& kernels, Stream& stream) {
  kernels.sum_of_squares({sum, gradients, n, workspace, type}, stream);
}

double grad_norm(const ExactSum& squares) { return std::sqrt(squares.value()); }

}  // namespace hawser::optim
