// Reference for routing: its formulas, over the number type T (double, std::complex<double>). The choice
// depends only on real parts.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/reference_number.h"
#include "kernels/include/router.h"

namespace hawser::kernels {

/// Returns the scores of a row, and stores the log-sum-exp of its logits.
template <class T>
std::vector<T> router_scores_reference(const RouterShape& s, const T* z, T* log_sum_exp) {
  double max = real_part(z[0]);
  for (int64_t e = 0; e < s.experts; ++e) max = std::max(max, real_part(z[e]));
  T sum = T(0);
  for (int64_t e = 0; e < s.experts; ++e) sum += std::exp(z[e] - max);
  *log_sum_exp = max + std::log(sum);
  std::vector<T> scores;
  for (int64_t e = 0; e < s.experts; ++e)
    scores.push_back(s.score == RouterScore::kSigmoid ? T(1) / (T(1) + std::exp(-z[e]))
                                                      : std::exp(z[e] - max) / sum);
  return scores;
}

/// Returns the indices of the `count` largest, ascending; ties go to the lower index.
inline std::vector<int64_t> largest_reference(const std::vector<double>& x, int64_t count) {
  std::vector<int64_t> order(x.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

/// Returns the experts of a row; `bias` may be null.
inline std::vector<int64_t> choice_reference(const RouterShape& s, std::vector<double> scores,
                                             const double* bias) {
  for (size_t e = 0; e < scores.size() && bias != nullptr; ++e) scores[e] += bias[e];
  const int64_t size = s.experts / s.groups;
  std::vector<double> groups;
  for (int64_t g = 0; g < s.groups; ++g) {
    std::vector<double> of_group(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    std::sort(of_group.rbegin(), of_group.rend());
    groups.push_back(of_group[0] + (size > 1 ? of_group[1] : 0.0));
  }
  const std::vector<int64_t> kept = largest_reference(groups, s.top_groups);
  for (int64_t e = 0; e < s.experts; ++e)
    if (!std::binary_search(kept.begin(), kept.end(), e / size))
      scores[static_cast<size_t>(e)] = -std::numeric_limits<double>::infinity();
  return largest_reference(scores, s.top_k);
}

/// Returns the weights of a row's chosen experts.
template <class T>
std::vector<T> router_weights_reference(const RouterShape& s, const std::vector<T>& scores,
                                        const std::vector<int64_t>& choice) {
  T sum = T(0);
  std::vector<T> weights;
  for (const int64_t e : choice) sum += scores[static_cast<size_t>(e)];
  for (const int64_t e : choice)
    weights.push_back(static_cast<double>(s.scale) * scores[static_cast<size_t>(e)] /
                      (s.normalize ? sum : T(1)));
  return weights;
}

/// Returns the losses of one row whose gradients RouterBackward adds: balance_scale times the sum over
/// experts of counts times scores (scaled to add up to 1), and z_scale times the square of the log-sum-exp.
template <class T>
T router_losses_reference(const RouterBackward& a, const std::vector<T>& scores, const T& log_sum_exp,
                          const double* counts) {
  T sum = T(0), balance = T(0);
  for (const T& score : scores) sum += score;
  for (size_t e = 0; e < scores.size() && counts != nullptr; ++e) balance += counts[e] * scores[e] / sum;
  return static_cast<double>(a.balance_scale) * balance +
         static_cast<double>(a.z_scale) * log_sum_exp * log_sum_exp;
}

/// Returns dz of a row by the Jacobian of the scores, derived by hand.
inline std::vector<double> router_backward_reference(const RouterBackward& a, const double* z,
                                                     const std::vector<int64_t>& choice,
                                                     const std::vector<double>& dweights,
                                                     const double* counts) {
  const RouterShape& s = a.shape;
  double log_sum_exp = 0;
  const std::vector<double> scores = router_scores_reference(s, z, &log_sum_exp);
  std::vector<double> dscores(scores.size()), dz(scores.size());
  double chosen = 0, all = 0, weighted = 0, counted = 0;
  for (const int64_t e : choice) chosen += scores[static_cast<size_t>(e)];
  for (size_t j = 0; j < choice.size(); ++j) weighted += dweights[j] * scores[static_cast<size_t>(choice[j])];
  for (size_t j = 0; j < choice.size(); ++j)
    dscores[static_cast<size_t>(choice[j])] =
        static_cast<double>(s.scale) *
        (s.normalize ? (dweights[j] - weighted / chosen) / chosen : dweights[j]);
  for (size_t e = 0; e < scores.size(); ++e)
    all += scores[e], counted += counts != nullptr ? counts[e] * scores[e] : 0;
  for (size_t e = 0; e < scores.size() && counts != nullptr; ++e)
    dscores[e] += static_cast<double>(a.balance_scale) * (counts[e] - counted / all) / all;
  double along = 0;
  for (size_t e = 0; e < scores.size(); ++e) along += dscores[e] * scores[e];
  for (size_t e = 0; e < scores.size(); ++e) {
    dz[e] = s.score == RouterScore::kSigmoid ? dscores[e] * scores[e] * (1 - scores[e])
                                             : scores[e] * (dscores[e] - along);
    dz[e] += 2 * static_cast<double>(a.z_scale) * log_sum_exp * std::exp(z[e] - log_sum_exp);
  }
  return dz;
}

}  // namespace hawser::kernels
