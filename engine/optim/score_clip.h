// ScoreClip: QK-Clip, which keeps attention scores from growing under optimizers with large updates (Kimi K2,
// arXiv 2507.20534, section 2.1). After an update, the head whose largest score of the step S exceeds the
// limit gets smaller queries and keys: the rows that make them are multiplied by powers of the factor
// limit / S (nn::ScaledRows), so that the same scores would not exceed the limit again.
//
// Keys that several heads share are never scaled, because they would be scaled for each of these heads. So
// plain attention scales a head's queries by the whole factor, for every number of key heads. In latent
// attention, a head's own queries and keys are scaled by the root of the factor, and its rotated queries by
// the whole factor; the rotated key, which all heads share, stays.
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
  /// `share`: as of Optimizer.
  ScoreClip(const nn::ParameterTable& table, double limit,
            const std::function<mesh::Box(const nn::Parameter&)>& share);

  /// Scales the f32 weights of the run's elements, and their rounded copy. largest: the largest score of each
  /// head of the step (nn::ParameterTable::head_scores).
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
