// Optimizer: applies one step of the config's optimizer (update.h) to a range of elements of a parameter
// group, on one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/mesh/box.h"
#include "engine/nn/parameter.h"
#include "engine/optim/score_clip.h"
#include "engine/optim/update.h"
#include "kernels/include/table.h"

namespace hawser::optim {

/// Elements [begin, end) of one parameter group. Every pointer refers to element `begin`: weights (masters),
/// their rounded copy (null if none), gradients, and the arrays that the optimizer keeps.
struct OptimizerRun {
  int64_t begin = 0, end = 0;
  void* weights = nullptr;
  void* copy = nullptr;
  const void* gradients = nullptr;
  std::array<void*, plan::kStateCount> states = {};
  DType copy_type = DType::kBf16;  ///< bf16 or f16
};

/// Returns the scalars of one step. count: accepted steps including this one; clip: factor on the gradients,
/// divided by their loss scale.
kernels::OptimizerScalars step_scalars(const OptimizerConfig& config, double learning_rate, double clip,
                                       int64_t count);

class Optimizer {
 public:
  /// `state` is f32, or bf16 for weights and gradients alike. bf16 is rounded stochastically with
  /// random bits from (seed, name, element, step), where elements are numbered within the full parameter.
  /// `share` returns the part of a parameter that the rank's parameter groups hold, without padding; by
  /// default the full parameter.
  Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config, DType state = DType::kF32,
            uint64_t seed = 0, const std::function<mesh::Box(const nn::Parameter&)>& share = {});

  /// Updates the weights, except those of matrices that update_matrix has updated, then scales the heads
  /// whose scores exceed the limit (score_clip.h), then updates the average. The kernels read *scalars when
  /// they run. `head_scores`: the step's largest attention scores; may be null if the config does not limit
  /// them.
  void step(int32_t group, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
            const float* head_scores, const kernels::KernelTable& kernels, Stream& stream) const;

  /// Muon, for elements of parameters whose group takes matrices (takes_matrices). First the momentum of n
  /// elements: u is what is to be made orthogonal.
  void add_momentum(float* m, float* u, const float* gradients, int64_t n,
                    const kernels::OptimizerScalars* scalars, const kernels::KernelTable& kernels,
                    Stream& stream) const;
  /// Muon's second part: the step along the orthogonal direction, for n elements of a matrix of the table's
  /// parameter number `parameter`. All pointers refer to the first of these elements.
  struct MatrixUpdate {
    float* weights = nullptr;
    void* copy = nullptr;  ///< null if there is none
    const float* direction = nullptr;
    int64_t n = 0;
    int64_t rows = 0, columns = 0;  ///< of the matrix
    DType copy_type = DType::kBf16;
  };
  void update_matrix(int32_t parameter, const MatrixUpdate& update, const kernels::OptimizerScalars* scalars,
                     const kernels::KernelTable& kernels, Stream& stream) const;

 private:
  struct MatrixSettings {
    float decay, rate;
  };
  // In f32, adjacent parameters with the same settings form one range; the padding between them is zero and
  // stays zero. In bf16, a range is the share of one parameter.
  struct Range {
    int64_t begin, end;
    float decay, rate;
    kernels::RoundingRun rounded;  // bf16: rounding, numbered from element `begin`
  };
  static void number_elements(Range* range, const nn::Parameter& p, uint64_t seed, const mesh::Box& share);
  /// Returns the settings of a parameter, as an empty range.
  Range settings_of(const nn::Parameter& p) const;
  UpdateCall call(const Range& range, const OptimizerRun& run, const StateTypes& kept) const;
  void update_ranges(int32_t group, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                     const kernels::KernelTable& kernels, Stream& stream) const;
  void average(const OptimizerRun& run, const kernels::KernelTable& kernels, Stream& stream) const;
  static std::vector<kernels::SettingsRun> settings_without_gaps(const std::vector<Range>& ranges);
  std::vector<std::vector<Range>> ranges_;                   // indexed by group
  std::vector<std::vector<kernels::SettingsRun>> settings_;  // the same, without gaps
  std::vector<OptimizerKind> kinds_;                         // indexed by group
  std::vector<MatrixSettings> matrices_;                     // indexed by parameter
  OptimizerConfig config_;
  DType state_;
  StatesByKind states_;
  ScoreClip clip_;
};

}  // namespace hawser::optim
