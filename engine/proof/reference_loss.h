// reference_loss: the loss of one target from its logits, for any number type, as schema/objective.fbs
// defines it: the cross entropy, mixed with the divergence from a teacher if the batch has one.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/proof/log_sum_exp.h"
#include "engine/proof/reference_batch.h"

namespace hawser::train {

/// Returns the divergence from the teacher's row of the position, times the square of the temperature.
template <class T>
T reference_divergence(const ReferenceBatch& batch, size_t position, std::vector<T> z) {
  const double heat = batch.temperature;
  for (T& value : z) value = value / heat;
  const T all = log_sum_exp(z);
  const auto top = static_cast<size_t>(batch.top);
  const auto power = [&](size_t i) {
    return std::exp(static_cast<double>(batch.teacher_logprobs[position * top + i]) / heat);
  };
  double sum = 0;
  for (size_t i = 0; i < top; ++i) sum += power(i);
  T divergence = T(0);
  for (size_t i = 0; i < top; ++i) {
    const double q = power(i) / sum;
    const auto id = static_cast<size_t>(batch.teacher_ids[position * top + i]);
    if (q > 0) divergence += q * (std::log(q) + (all - z[id]));
  }
  return heat * heat * divergence;
}

template <class T>
T reference_loss(const ReferenceBatch& batch, size_t position, const std::vector<T>& z) {
  const T entropy = log_sum_exp(z) - z[static_cast<size_t>(batch.targets[position])];
  if (batch.top == 0) return entropy;
  const double share = batch.teacher_weight;
  return (1 - share) * entropy + share * reference_divergence(batch, position, z);
}

}  // namespace hawser::train
