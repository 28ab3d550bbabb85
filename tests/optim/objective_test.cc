// Compares loss weights of targets with complex steps of the formulas, which are written here as in their
// papers.
#include "engine/optim/objective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

namespace hawser::optim {
namespace objective_test {

using C = std::complex<double>;

C log_sigmoid_of(C x) { return -std::log(1.0 + std::exp(-x)); }
C odds_of(C mean) { return mean - std::log(1.0 - std::exp(mean)); }

struct Two {
  C chosen, rejected;
};

constexpr Answer kChosen{-7.5, -8.25, 5}, kRejected{-11.0, -9.5, 7};
constexpr double kShare = 0.125;

C formula(const ObjectiveConfig& o, const Two& p) {
  const C c = p.chosen - kChosen.reference, r = p.rejected - kRejected.reference;
  const C mc = p.chosen / kChosen.tokens, mr = p.rejected / kRejected.tokens;
  const C x = o.beta * (c - r);
  switch (o.kind) {
    case ObjectiveKind::kDpo:
    case ObjectiveKind::kDpoSft:
      return -(1 - o.label_smoothing) * log_sigmoid_of(x) - o.label_smoothing * log_sigmoid_of(-x) -
             o.sft_weight * kShare * p.chosen;
    case ObjectiveKind::kIpo: {
      const C d = c / kChosen.tokens - r / kRejected.tokens - 1 / (2 * o.beta);
      return d * d;
    }
    case ObjectiveKind::kHinge:
      return std::real(x) < 1 ? 1.0 - x : C(0);
    case ObjectiveKind::kSimpo:
      return -log_sigmoid_of(o.beta * (mc - mr) - o.gamma);
    case ObjectiveKind::kOrpo:
      return -mc - o.beta * log_sigmoid_of(odds_of(mc) - odds_of(mr));
    case ObjectiveKind::kReward:
      return -log_sigmoid_of(p.chosen - p.rejected);
    case ObjectiveKind::kCrossEntropy:
      break;
  }
  return 0;
}

void check(const ObjectiveConfig& o) {
  constexpr double kStep = 1e-20;
  SCOPED_TRACE(static_cast<int>(o.kind));
  const PairLoss p = pair_loss(o, kChosen, kRejected, kShare);
  EXPECT_NEAR(p.loss, std::real(formula(o, {kChosen.logp, kRejected.logp})), 1e-13);
  EXPECT_NEAR(p.by_chosen, std::imag(formula(o, {C(kChosen.logp, kStep), kRejected.logp})) / kStep, 1e-13);
  EXPECT_NEAR(p.by_rejected, std::imag(formula(o, {kChosen.logp, C(kRejected.logp, kStep)})) / kStep, 1e-13);
}

TEST(Objective, DerivativesAreThoseOfTheFormula) {
  for (const ObjectiveKind kind : {ObjectiveKind::kDpo, ObjectiveKind::kIpo, ObjectiveKind::kHinge,
                                   ObjectiveKind::kSimpo, ObjectiveKind::kOrpo, ObjectiveKind::kReward})
    check({kind, 0.3, 0.5, 0, 0, {}});
  check({ObjectiveKind::kDpo, 0.3, 0, 0, 0.2, {}});
  check({ObjectiveKind::kDpoSft, 0.3, 0, 0.7, 0.1, {}});
}

TEST(Objective, HingeHasNoGradientBehindItsMargin) {
  const PairLoss p = pair_loss({ObjectiveKind::kHinge, 1, 0, 0, 0, {}}, kChosen, kRejected, 0);
  EXPECT_EQ(p.loss, 0);
  EXPECT_EQ(p.by_chosen, 0);
  EXPECT_EQ(p.by_rejected, 0);
}

TEST(Objective, ExtremeMarginsStayFinite) {
  for (const double logp : {-1e4, -1e-3}) {
    const PairLoss p = pair_loss({ObjectiveKind::kDpo, 1, 0, 0, 0, {}}, {logp, 0, 3}, {-1e4 - logp, 0, 3}, 0);
    EXPECT_TRUE(std::isfinite(p.loss) && std::isfinite(p.by_chosen));
  }
}

TEST(Objective, ANanIsNotLost) {
  EXPECT_TRUE(std::isnan(pair_loss({ObjectiveKind::kHinge, 1, 0, 0, 0, {}}, {NAN, 0, 3}, kRejected, 0).loss));
}

/// Two answers of equal reward tell nothing about the model, so they are half a win, as for a coin.
TEST(Objective, EqualRewardsAreHalfAWin) {
  const auto wins = [](double chosen, double rejected) {
    PairLoss p;
    p.chosen_reward = chosen, p.rejected_reward = rejected;
    return half_wins(p);
  };
  EXPECT_EQ(wins(1, 0), 2);
  EXPECT_EQ(wins(0, 1), 0);
  EXPECT_EQ(wins(-0.5, -0.5), 1);
  EXPECT_EQ(wins(0.0, -0.0), 1);
  EXPECT_EQ(wins(NAN, 0) + wins(0, NAN) + wins(NAN, NAN), 0);
  const ObjectiveConfig o{ObjectiveKind::kDpo, 0.3, 0.5, 0, 0, {}};
  EXPECT_EQ(half_wins(pair_loss(o, kChosen, kChosen, 0)), 1);
}

}  // namespace objective_test
}  // namespace hawser::optim
