// Objectives: objectives over log-probabilities, as a host program writes them for hws_engine_backward_with:
// a loss, and its gradient by the log-probability of each token of an answer. DPO (Rafailov et al.,
// arXiv:2305.18290), IPO (arXiv:2310.12036), hinge (SLiC, arXiv:2305.10425), SimPO (arXiv:2405.14734), ORPO
// (arXiv:2403.07691), GRPO (arXiv:2402.03300).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hawser::golden {

/// Answers of one batch: [rows, cols] values, of which only those of a row's answer count.
struct Answers {
  int64_t rows = 0, cols = 0;
  std::vector<int32_t> targets;  ///< -100: not part of an answer
  std::vector<float> logps;      ///< under the policy; 0 if the target is not part of an answer

  bool counts(size_t at) const { return targets[at] != -100; }
  std::vector<double> sums(const std::vector<float>& values) const;  ///< by row
  std::vector<double> lengths() const;                               ///< tokens of each row's answer
};

struct Objective {
  double loss = 0;
  std::vector<float> gradients;  ///< [rows, cols]
};

constexpr double kBeta = 0.1;

/// Computes the objective `name` (sigmoid, ipo, hinge, sigmoid_sft, simpo or orpo) as the mean over pairs.
/// The first half of the rows is chosen, the second rejected. `reference`: the sum of each row's answer under
/// the reference model.
Objective preference(const std::string& name, const Answers& answers, const std::vector<double>& reference);

/// Computes clipped ratios against `old` and a penalty for the distance to `reference` (log-probabilities
/// like those of the answers): the mean over all tokens, or over rows of their means.
Objective grpo(const Answers& answers, const std::vector<double>& advantages, const std::vector<float>& old,
               const std::vector<float>& reference, bool by_row);

}  // namespace hawser::golden
