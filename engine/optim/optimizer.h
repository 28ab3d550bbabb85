// Optimizer: one step of AdamW or SGD over any run of a parameter group's elements.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/parameter.h"
#include "engine/optim/optim_config.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// Moment buffers the optimizer keeps, each as long as the trainable weights: AdamW 2, SGD 1 with momentum,
/// else 0.
int64_t moment_count(const OptimizerConfig& config);

/// Elements [begin, end) of one group; every pointer is that of element `begin`: weights (masters), their
/// bf16 copy (null: none), gradients, moments. All but the copy have the optimizer's state type.
struct OptimizerRun {
  int64_t begin = 0, end = 0;
  void* weights = nullptr;
  void* copy = nullptr;
  const void* gradients = nullptr;
  void* moment1 = nullptr;
  void* moment2 = nullptr;
};

class Optimizer {
 public:
  /// `state`: f32, or bf16 of weights, gradients and moments alike, rounded by (seed, name, element, step).
  Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config, DType state = DType::kF32,
            uint64_t seed = 0);

  /// Values of one step: count = accepted steps including this one, clip = factor on the gradients.
  kernels::OptimizerScalars scalars(double learning_rate, double clip, int64_t count) const;
  /// *scalars is read when the kernels run.
  void step(int32_t group, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
            const kernels::KernelTable& kernels, Stream& stream) const;

 private:
  // Neighbours that are stepped alike in one range; the padding between them is zero and stays zero.
  struct Range {
    int64_t begin, end;
    bool decay;
    uint64_t key;  // bf16: of its one parameter's rounding
  };
  void step_f32(const Range& range, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                const kernels::KernelTable& kernels, Stream& stream) const;
  void step_bf16(const Range& range, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                 const kernels::KernelTable& kernels, Stream& stream) const;
  std::vector<std::vector<Range>> ranges_;  // by group
  OptimizerConfig config_;
  DType state_;
};

}  // namespace hawser::optim
