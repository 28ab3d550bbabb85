// Reference router: chooses the experts of one token from its logits, as in DeepSeek-V3 (arXiv:2412.19437)
// and Transformers. T is the number type of reference_model.h; the choice depends on real parts only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/nn/model_config.h"
#include "kernels/cpu/reference_number.h"

namespace hawser::train {

template <class T>
struct ReferenceRoute {
  std::vector<size_t> chosen;  ///< ascending
  std::vector<T> weights;      ///< of the chosen experts
  std::vector<T> shares;       ///< scores of all experts, scaled to sum to 1
  T log_sum_exp;
  /// Lead of the last chosen expert over the best one that was not chosen, relative to its score; or the same
  /// of groups, if that is less.
  double margin;
};

/// Returns the indexes of the `count` largest values, ascending. Ties go to the lower index.
inline std::vector<size_t> largest(const std::vector<double>& x, int64_t count) {
  std::vector<size_t> indexes;
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t before = 0;  // values that rank before x[i]
    for (size_t j = 0; j < x.size(); ++j) before += x[j] > x[i] || (x[j] == x[i] && j < i) ? 1 : 0;
    if (before < count) indexes.push_back(i);
  }
  return indexes;
}

/// Returns the lead of the last chosen entry (ReferenceRoute::margin); infinite if all entries are chosen.
inline double margin_of(const std::vector<double>& ranked, const std::vector<size_t>& chosen) {
  double last = std::numeric_limits<double>::infinity(), next = -last;
  for (size_t e = 0; e < ranked.size(); ++e) {
    if (std::find(chosen.begin(), chosen.end(), e) != chosen.end())
      last = std::min(last, ranked[e]);
    else
      next = std::max(next, ranked[e]);
  }
  return (last - next) / std::max(std::abs(last), 1e-30);
}

/// Sets the scores of experts outside the best groups to minus infinity. Returns the margin of the groups.
inline double mask_groups(std::vector<double>* ranked, const nn::MoeConfig& moe) {
  const auto size = ranked->size() / static_cast<size_t>(moe.groups);
  std::vector<double> sums;
  for (auto group = ranked->begin(); group != ranked->end(); group += static_cast<int64_t>(size)) {
    double sum = 0;
    const std::vector<double> scores(group, group + static_cast<int64_t>(size));
    for (const size_t e : largest(scores, 2)) sum += scores[e];
    sums.push_back(sum);
  }
  const std::vector<size_t> kept = largest(sums, moe.top_groups);
  for (size_t e = 0; e < ranked->size(); ++e)
    if (std::find(kept.begin(), kept.end(), e / size) == kept.end())
      (*ranked)[e] = -std::numeric_limits<double>::infinity();
  return margin_of(sums, kept);
}

/// Routes one token. `bias` may be null.
template <class T>
ReferenceRoute<T> reference_route(const std::vector<T>& logits, const T* bias, const nn::MoeConfig& moe) {
  using kernels::real_part, std::exp, std::log;  // or the functions in the number's own namespace
  ReferenceRoute<T> route;
  double max = real_part(logits[0]);
  for (const T& z : logits) max = std::max(max, real_part(z));
  T sum = T(0);
  for (const T& z : logits) sum += exp(z - max);
  route.log_sum_exp = max + log(sum);
  std::vector<T> scores;
  T total = T(0);
  for (const T& z : logits) {
    scores.push_back(moe.score == nn::RouterScore::kSigmoid ? T(1.0) / (1.0 + exp(-z)) : exp(z - max) / sum);
    total += scores.back();
  }
  for (const T& score : scores) route.shares.push_back(score / total);
  std::vector<double> ranked;
  for (size_t e = 0; e < scores.size(); ++e)
    ranked.push_back(real_part(scores[e]) + (bias != nullptr ? real_part(bias[e]) : 0.0));
  route.margin = std::numeric_limits<double>::infinity();
  if (moe.groups > 1) route.margin = mask_groups(&ranked, moe);
  route.chosen = largest(ranked, moe.top_k);
  route.margin = std::min(route.margin, margin_of(ranked, route.chosen));
  T of_chosen = T(0);
  for (const size_t e : route.chosen) of_chosen += scores[e];
  for (const size_t e : route.chosen)
    route.weights.push_back(moe.scale * (moe.normalize ? scores[e] / of_chosen : scores[e]));
  return route;
}

}  // namespace hawser::train
