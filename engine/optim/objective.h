// Objectives over pairs of answers: each is a loss of the log-probabilities of both answers, with its
// derivatives with respect to them. All share one idea: the gradient is the sum over targets of a weight
// times the gradient of the target's log-probability. Formulas, sources and defaults are those of
// capi/schema/objective.fbs.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::optim {

// Numbered as in the schema.
enum class ObjectiveKind { kCrossEntropy, kDpo, kIpo, kHinge, kDpoSft, kSimpo, kOrpo, kReward };

struct ObjectiveConfig {
  ObjectiveKind kind = ObjectiveKind::kCrossEntropy;
  double beta = 0;
  double gamma = 0;            ///< used by simpo
  double sft_weight = 0;       ///< used by dpo_sft; otherwise 0
  double label_smoothing = 0;  ///< used by dpo and dpo_sft
  std::string reference;       ///< folder of the reference model; empty: the untrained model

  /// Rows of a batch that form one example: 2 are the answers of a pair, the chosen one first. The rows of an
  /// example are in one micro-batch.
  int64_t rows_per_example() const { return kind == ObjectiveKind::kCrossEntropy ? 1 : 2; }
  /// True if OBJECTIVE computes the weight of each target from the log-probabilities of whole rows, so that
  /// batches bring none. The loss of the step is then not the sum of its targets' losses.
  bool weighs_targets() const { return kind != ObjectiveKind::kCrossEntropy; }
  /// True if a step also reports rewards of the answers.
  bool has_rewards() const { return weighs_targets(); }
  /// True if the objective compares scores of answers instead of log-probabilities.
  bool scores() const { return kind == ObjectiveKind::kReward; }
  bool has_reference() const {
    return weighs_targets() && kind != ObjectiveKind::kSimpo && kind != ObjectiveKind::kOrpo && !scores();
  }
};

/// Calls visit(key, member, applies) for each key of the config's objective section. `applies` is true if the
/// kind has the key.
void each_key(ObjectiveConfig& o, auto&& visit) {
  visit("kind", o.kind, true);
  const bool compares = o.weighs_targets() && !o.scores();
  visit("beta", o.beta, compares);
  visit("gamma", o.gamma, compares);
  visit("sft_weight", o.sft_weight, o.kind == ObjectiveKind::kDpoSft);
  visit("label_smoothing", o.label_smoothing, compares);
  visit("reference", o.reference, compares);
}

/// One answer, with sums over its tokens.
struct Answer {
  double logp = 0;       ///< log-probability under the model; for scores(): the score
  double reference = 0;  ///< log-probability under the reference model; 0 without one
  double tokens = 0;
};

struct PairLoss {
  double loss = 0;
  double by_chosen = 0, by_rejected = 0;  ///< d loss / d log-probability of the answer
  double chosen_reward = 0, rejected_reward = 0;
};

/// sft_share: the weight of each token of a chosen answer in the mean that sft_weight scales, times the
/// number of pairs in the global batch.
PairLoss pair_loss(const ObjectiveConfig& objective, const Answer& chosen, const Answer& rejected,
                   double sft_share);

/// Returns the wins of the chosen answer in halves: 2 if its reward is the higher one, 1 if the rewards are
/// equal, otherwise 0. Whole numbers, so that sums do not depend on their order.
inline int64_t half_wins(const PairLoss& p) {
  return (p.chosen_reward > p.rejected_reward ? 1 : 0) + (p.chosen_reward >= p.rejected_reward ? 1 : 0);
}

/// Mean rewards of pairs, and the share of pairs whose chosen answer has the higher reward; equal rewards
/// count as half a pair.
struct PairRewards {
  double chosen = 0, rejected = 0, accuracy = 0;
};

}  // namespace hawser::optim
