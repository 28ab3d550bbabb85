#include "tests/golden/objectives.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace hawser::golden {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

/// A function of two sums, with its derivatives by both.
struct OfPair {
  double loss = 0, by_chosen = 0, by_rejected = 0;
};

/// Returns f(x), with x linear in both sums.
OfPair linear(double loss, double derivative, double of_chosen, double of_rejected) {
  return {loss, derivative * of_chosen, derivative * of_rejected};
}

struct Pair {
  double chosen, rejected;        // log-probabilities of the answers
  double chosen_n, rejected_n;    // number of their tokens
  double chosen_at, rejected_at;  // the same under the reference
  double chosen_share;  // of this answer's tokens among those of all chosen ones, per token: 1 / all
  double gap() const { return (chosen - chosen_at) - (rejected - rejected_at); }
};

OfPair dpo(const Pair& p) {
  const double x = kBeta * p.gap();
  return linear(-log_sigmoid(x), -kBeta * sigmoid(-x), 1, -1);
}

OfPair ipo(const Pair& p) {
  const double x =
      (p.chosen - p.chosen_at) / p.chosen_n - (p.rejected - p.rejected_at) / p.rejected_n - 1 / (2 * kBeta);
  return linear(x * x, 2 * x, 1 / p.chosen_n, -1 / p.rejected_n);
}

OfPair hinge(const Pair& p) {
  const double x = 1 - kBeta * p.gap();
  return x > 0 ? linear(x, -kBeta, 1, -1) : OfPair{};
}

OfPair simpo(const Pair& p) {
  constexpr double kSimpoBeta = 2, kGamma = 0.5;
  const double x = kSimpoBeta * (p.chosen / p.chosen_n - p.rejected / p.rejected_n) - kGamma;
  return linear(-log_sigmoid(x), -kSimpoBeta * sigmoid(-x), 1 / p.chosen_n, -1 / p.rejected_n);
}

OfPair orpo(const Pair& p) {
  constexpr double kLambda = 0.1;
  const double c = p.chosen / p.chosen_n, r = p.rejected / p.rejected_n;
  const double odds = (c - r) - (std::log1p(-std::exp(c)) - std::log1p(-std::exp(r)));
  const double by_odds = -kLambda * sigmoid(-odds);
  return {-c - kLambda * log_sigmoid(odds), (-1 + by_odds / (1 - std::exp(c))) / p.chosen_n,
          -by_odds / (1 - std::exp(r)) / p.rejected_n};
}

OfPair of_pair(const std::string& name, const Pair& p, double pairs) {
  if (name == "sigmoid") return dpo(p);
  if (name == "ipo") return ipo(p);
  if (name == "hinge") return hinge(p);
  if (name == "simpo") return simpo(p);
  if (name == "orpo") return orpo(p);
  if (name != "sigmoid_sft") throw std::invalid_argument(name + " is no objective");
  // The mean over all chosen tokens has a separate divisor.
  OfPair result = dpo(p);
  result.loss -= pairs * p.chosen_share * p.chosen;
  result.by_chosen -= pairs * p.chosen_share;
  return result;
}

}  // namespace

std::vector<double> Answers::sums(const std::vector<float>& values) const {
  std::vector<double> sums(static_cast<size_t>(rows));
  for (size_t i = 0; i < targets.size(); ++i)
    if (counts(i)) sums[i / static_cast<size_t>(cols)] += static_cast<double>(values[i]);
  return sums;
}

std::vector<double> Answers::lengths() const { return sums(std::vector<float>(targets.size(), 1.0f)); }

Objective preference(const std::string& name, const Answers& answers, const std::vector<double>& reference) {
  const std::vector<double> sums = answers.sums(answers.logps), n = answers.lengths();
  const size_t half = sums.size() / 2;
  const auto pairs = static_cast<double>(half);
  double chosen_tokens = 0;
  for (size_t i = 0; i < half; ++i) chosen_tokens += n[i];
  Objective result;
  std::vector<double> by_row(sums.size());
  for (size_t i = 0; i < half; ++i) {
    const size_t j = half + i;
    const OfPair one =
        of_pair(name, {sums[i], sums[j], n[i], n[j], reference[i], reference[j], 1 / chosen_tokens}, pairs);
    result.loss += one.loss / pairs;
    by_row[i] = one.by_chosen / pairs, by_row[j] = one.by_rejected / pairs;
  }
  result.gradients.resize(answers.targets.size());
  for (size_t i = 0; i < answers.targets.size(); ++i)
    if (answers.counts(i))
      result.gradients[i] = static_cast<float>(by_row[i / static_cast<size_t>(answers.cols)]);
  return result;
}

Objective grpo(const Answers& answers, const std::vector<double>& advantages, const std::vector<float>& old,
               const std::vector<float>& reference, bool by_row) {
  constexpr double kClip = 0.2, kPenalty = 0.04;
  const std::vector<double> n = answers.lengths();
  double tokens = 0;
  for (const double length : n) tokens += length;
  Objective result;
  result.gradients.resize(answers.targets.size());
  for (size_t i = 0; i < answers.targets.size(); ++i) {
    if (!answers.counts(i)) continue;
    const size_t row = i / static_cast<size_t>(answers.cols);
    const double logp = static_cast<double>(answers.logps[i]), a = advantages[row];
    const double ratio = std::exp(logp - static_cast<double>(old[i]));
    const double gap = static_cast<double>(reference[i]) - logp;
    const double whole = ratio * a, clipped = std::clamp(ratio, 1 - kClip, 1 + kClip) * a;
    const double weight = by_row ? 1 / (n[row] * static_cast<double>(answers.rows)) : 1 / tokens;
    result.loss += weight * (-std::min(whole, clipped) + kPenalty * (std::exp(gap) - gap - 1));
    // If the clipped term is smaller, it is constant.
    const double gradient = (whole <= clipped ? -whole : 0) + kPenalty * (1 - std::exp(gap));
    result.gradients[i] = static_cast<float>(weight * gradient);
  }
  return result;
}

}  // namespace hawser::golden
