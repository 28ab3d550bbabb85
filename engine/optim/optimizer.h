// Optimizer: one step of AdamW or SGD over the flat buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/parameter.h"
#include "engine/optim/optim_config.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// Moment buffers the optimizer keeps, each as long as the flat weights: AdamW 2, SGD 1 with momentum, else
/// 0.
int64_t moment_count(const OptimizerConfig& config);

/// The flat buffers of a step: f32 master weights, their bf16 copy (null in fp32), gradients, moments.
struct OptimizerBuffers {
  float* weights = nullptr;
  void* copy = nullptr;
  const float* gradients = nullptr;
  float* moment1 = nullptr;
  float* moment2 = nullptr;
};

class Optimizer {
 public:
  Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config);

  /// Values of one step: count = accepted steps including this one, clip = factor on the gradients.
  kernels::OptimizerScalars scalars(double learning_rate, double clip, int64_t count) const;
  /// *scalars is read when the kernels run.
  void step(const OptimizerBuffers& buffers, const kernels::OptimizerScalars* scalars,
            const kernels::KernelTable& kernels, Stream& stream) const;

 private:
  // Neighbours with equal decay in one range; the padding between them is zero and stays zero.
  struct Range {
    int64_t begin, end;
    bool decay;
  };
  std::vector<Range> ranges_;
  OptimizerConfig config_;
};

}  // namespace hawser::optim
