// ScoreClip: QK-Clip, which keeps attention scores from growing under optimizers with large updates (Kimi K2,
// arXiv 2507.20534, section 2.1). After an update, each head whose largest score S in the step exceeds the
// limit is scaled: the weight rows that produce its queries and keys are multiplied by powers of the factor
// limit / S (nn::ScaledRows), so that the same scores would not exceed the limit again.
//
// Plain attention scales only queries, by the whole factor, even if each head has its own keys: a key head
// may be shared, and would then be scaled once for each of its heads. Latent attention scales a head's
// unrotated queries and keys by the square root of the factor, and its rotated queries by the whole factor.
// All heads share the rotated key, so it is not scaled.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/mesh/box.h"
#include "engine/nn/parameter.h"
#include "kernels/include/table.h"

namespace hawser::optim {

struct OptimizerRun;

/// The attention scores of a step.
struct ScoreSummary {
  float largest = 0;        ///< 0 if none is above 0
  int64_t heads_above = 0;  ///< heads of all layers whose largest score exceeds the limit
};
ScoreSummary summary_of(const std::vector<float>& largest, double limit);

class ScoreClip {
 public:
  ScoreClip() = default;  ///< no limit
  /// `share`: as for Optimizer.
  ScoreClip(const nn::ParameterTable& table, double limit,
            const std::function<mesh::Box(const nn::Parameter&)>& share);

  /// Scales the run's f32 weights and their rounded copy. `largest`: the largest score of each head in the
  /// step (nn::ParameterTable::head_scores); without a limit it may be null.
  void apply(int32_t group, const OptimizerRun& run, const float* largest,
             const kernels::KernelTable& kernels, Stream& stream) const;

 private:
  /// Elements of a parameter group that are rows of one head.
  struct Rows {
    int64_t begin, end, head;
    float power;
  };
  void add(const nn::Parameter& p, const mesh::Box& share, int64_t first_head);

  float limit_ = 0;
  std::vector<std::vector<Rows>> rows_;  // indexed by group
};

}  // namespace hawser::optim
