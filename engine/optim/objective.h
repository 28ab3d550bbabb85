// Objectives over pairs of answers: a loss of both answers' log-probabilities, and its derivatives by them.
// All are one idea: the gradient is a weight per target times the gradient of its log-probability. Formulas,
// sources and defaults are those of capi/schema/objective.fbs.
#pragma once

#include <string>

namespace hawser::optim {

enum class ObjectiveKind { kCrossEntropy, kDpo, kIpo, kHinge, kDpoSft, kSimpo, kOrpo, kReward };

struct ObjectiveConfig {
  ObjectiveKind kind = ObjectiveKind::kCrossEntropy;
  double beta = 0;
  double gamma = 0;            ///< simpo
  double sft_weight = 0;       ///< dpo_sft; else 0
  double label_smoothing = 0;  ///< dpo, dpo_sft
  std::string reference;       ///< folder of the reference model; empty: the model as training begins

  bool pairs() const { return kind != ObjectiveKind::kCrossEntropy; }
  /// Whether an answer's score takes the place of its log-probability.
  bool scores() const { return kind == ObjectiveKind::kReward; }
  bool has_reference() const {
    return pairs() && kind != ObjectiveKind::kSimpo && kind != ObjectiveKind::kOrpo && !scores();
  }
};

/// One answer: sums over its tokens.
struct Answer {
  double logp = 0;       ///< of the model; its score, where the objective is over scores
  double reference = 0;  ///< of the reference; 0 without one
  double tokens = 0;
};

struct PairLoss {
  double loss = 0;
  double by_chosen = 0, by_rejected = 0;  ///< d loss / d log-probability of the answer
  double chosen_reward = 0, rejected_reward = 0;
};

/// `sft_share`: what each token of a chosen answer counts in sft_weight's mean, times the pairs of the global
/// batch.
PairLoss pair_loss(const ObjectiveConfig& objective, const Answer& chosen, const Answer& rejected,
                   double sft_share);

/// Rewards of pairs: means, and the share of pairs whose chosen answer has the higher one.
struct PairRewards {
  double chosen = 0, rejected = 0, accuracy = 0;
};

}  // namespace hawser::optim
