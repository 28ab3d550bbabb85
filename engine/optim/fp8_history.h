// Fp8History: the largest magnitudes of fp8 operands over the last steps, from which delayed scaling
// takes the scale of each operand (Micikevicius et al., arXiv:2209.05433; as in TransformerEngine, with
// its maximum over the history). Only committed steps count. For each operand it keeps only the maxima that
// can still become the largest: those that no later maximum has reached.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hawser::optim {

/// The maximum of a step: how many committed steps followed it, and its value.
struct Fp8Maximum {
  int64_t age = 0;
  float value = 0;
  bool operator==(const Fp8Maximum&) const = default;
};

/// What checkpoints keep: for each operand with a history, its name and its maxima, the oldest first.
/// Names do not depend on the layout.
using Fp8HistoryState = std::vector<std::pair<std::string, std::vector<Fp8Maximum>>>;

class Fp8History {
 public:
  Fp8History() = default;
  struct Operand {
    std::string name;
    float first = 0;  ///< its maximum as long as it has none
  };
  /// `steps` committed steps count.
  Fp8History(std::vector<Operand> operands, int64_t steps);

  bool enabled() const { return !operands_.empty(); }
  /// The largest magnitude of each operand, or Operand::first. Null unless enabled. The address never
  /// changes.
  const float* maxima() const { return enabled() ? maxima_.data() : nullptr; }
  /// A step was committed, whose largest magnitudes are `noted`. A 0 is no magnitude: nothing was multiplied.
  void fold(const std::vector<float>& noted);

  /// Returns the state for a checkpoint; none unless enabled.
  std::optional<Fp8HistoryState> saved() const;
  /// Continues with the state of a checkpoint, or begins again if it has none (it is of another precision).
  /// Operands that this model does not have are left out, and so are maxima that are too old.
  void resume(const std::optional<Fp8HistoryState>& state);

 private:
  void expire(size_t operand);

  std::vector<Operand> operands_;
  int64_t steps_ = 1;
  std::vector<std::vector<Fp8Maximum>> kept_;  // descending, the oldest first
  std::vector<float> maxima_;
};

}  // namespace hawser::optim
