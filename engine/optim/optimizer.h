// Optimizer: one step of AdamW or SGD over a run of a parameter group's elements.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/parameter.h"
#include "engine/optim/optim_config.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// Number of moment buffers, each as long as the trainable weights: AdamW 2, SGD 1 with momentum, else 0.
int64_t moment_count(const OptimizerConfig& config);

/// Elements [begin, end) of one group. Every pointer refers to element `begin`: weights (masters), their bf16
/// copy (null if none), gradients, moments. All but the copy have the optimizer's state type.
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
  /// `state` is f32, or bf16 for weights, gradients and moments alike. bf16 is rounded stochastically with
  /// random bits from (seed, name, element, step).
  Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config, DType state = DType::kF32,
            uint64_t seed = 0);

  /// The scalars of one step. count = accepted steps including this one; clip = factor on the gradients.
  kernels::OptimizerScalars scalars(double learning_rate, double clip, int64_t count) const;
  /// The kernels read *scalars when they run.
  void step(int32_t group, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
            const kernels::KernelTable& kernels, Stream& stream) const;

 private:
  // Adjacent parameters with the same settings form one range. The padding between them is zero and stays
  // zero.
  struct Range {
    int64_t begin, end;
    bool decay;
    uint64_t key;  // bf16: random key of its one parameter
  };
  void step_f32(const Range& range, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                const kernels::KernelTable& kernels, Stream& stream) const;
  void step_bf16(const Range& range, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                 const kernels::KernelTable& kernels, Stream& stream) const;
  std::vector<std::vector<Range>> ranges_;  // indexed by group
  OptimizerConfig config_;
  DType state_;
};

}  // namespace hawser::optim
