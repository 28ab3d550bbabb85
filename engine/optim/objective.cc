#include "engine/optim/objective.h"

#include <algorithm>
#include <cmath>

namespace hawser::optim {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

/// The value and the derivative of a function of one variable at one point.
struct Curve {
  double value = 0, slope = 0;
};

Curve logistic(double x) { return {-log_sigmoid(x), -sigmoid(-x)}; }

/// Smooths the labels: the two answers are swapped with probability s.
Curve smoothed(double x, double s) {
  const Curve right = logistic(x), wrong = logistic(-x);
  return {(1 - s) * right.value + s * wrong.value, (1 - s) * right.slope - s * wrong.slope};
}

double gap(const Answer& a) { return a.logp - a.reference; }
double mean(const Answer& a) { return a.logp / a.tokens; }
/// Returns log(p / (1 - p)) of a mean log-probability m = log(p), and the derivative with respect to m.
Curve log_odds(double m) { return {m - std::log(-std::expm1(m)), 1 / -std::expm1(m)}; }

/// Sets loss and derivatives of an objective that is f(a * chosen - b * rejected + constant).
void set(PairLoss* p, const Curve& f, double a, double b) {
  p->loss = f.value;
  p->by_chosen = f.slope * a, p->by_rejected = -f.slope * b;
}

void dpo(PairLoss* p, const ObjectiveConfig& o, const Answer& c, const Answer& r, double sft_share) {
  set(p, smoothed(o.beta * (gap(c) - gap(r)), o.label_smoothing), o.beta, o.beta);
  p->loss -= o.sft_weight * sft_share * c.logp;
  p->by_chosen -= o.sft_weight * sft_share;
}

void ipo(PairLoss* p, const ObjectiveConfig& o, const Answer& c, const Answer& r) {
  const double x = gap(c) / c.tokens - gap(r) / r.tokens - 1 / (2 * o.beta);
  set(p, {x * x, 2 * x}, 1 / c.tokens, 1 / r.tokens);
}

void hinge(PairLoss* p, const ObjectiveConfig& o, const Answer& c, const Answer& r) {
  const double x = 1 - o.beta * (gap(c) - gap(r));
  if (!(x <= 0)) set(p, {x, -1}, o.beta, o.beta);  // also true for NaN, which must not count as zero loss
}

void simpo(PairLoss* p, const ObjectiveConfig& o, const Answer& c, const Answer& r) {
  set(p, logistic(o.beta * (mean(c) - mean(r)) - o.gamma), o.beta / c.tokens, o.beta / r.tokens);
}

void orpo(PairLoss* p, const ObjectiveConfig& o, const Answer& c, const Answer& r) {
  const Curve of_chosen = log_odds(mean(c)), of_rejected = log_odds(mean(r));
  const Curve f = logistic(of_chosen.value - of_rejected.value);
  set(p, {o.beta * f.value, o.beta * f.slope}, of_chosen.slope / c.tokens, of_rejected.slope / r.tokens);
  p->loss -= mean(c);
  p->by_chosen -= 1 / c.tokens;
}

void reward(PairLoss* p, const Answer& c, const Answer& r) {
  set(p, logistic(c.logp - r.logp), 1, 1);
  p->chosen_reward = c.logp, p->rejected_reward = r.logp;
}

}  // namespace

PairLoss pair_loss(const ObjectiveConfig& o, const Answer& c, const Answer& r, double sft_share) {
  PairLoss p;
  const bool of_means = o.kind == ObjectiveKind::kSimpo || o.kind == ObjectiveKind::kOrpo;
  p.chosen_reward = o.beta * (of_means ? mean(c) : gap(c));
  p.rejected_reward = o.beta * (of_means ? mean(r) : gap(r));
  switch (o.kind) {
    case ObjectiveKind::kCrossEntropy:
      break;
    case ObjectiveKind::kDpo:
    case ObjectiveKind::kDpoSft:
      dpo(&p, o, c, r, sft_share);
      break;
    case ObjectiveKind::kIpo:
      ipo(&p, o, c, r);
      break;
    case ObjectiveKind::kHinge:
      hinge(&p, o, c, r);
      break;
    case ObjectiveKind::kSimpo:
      simpo(&p, o, c, r);
      break;
    case ObjectiveKind::kOrpo:
      orpo(&p, o, c, r);
      break;
    case ObjectiveKind::kReward:
      reward(&p, c, r);
      break;
  }
  return p;
}

}  // namespace hawser::optim
