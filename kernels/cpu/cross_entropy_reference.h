// Reference for softmax cross entropy: the formula, over the number type T (double, std::complex<double>).
#pragma once

#include <limits>
#include <vector>

#include "kernels/cpu/reference_number.h"
#include "kernels/include/cross_entropy.h"

namespace hawser::kernels {

template <class T>
T soft_cap_reference(double cap, const T& logit) {
  return cap > 0 ? cap * std::tanh(logit / cap) : logit;
}

/// Mixes the teacher's part into the loss of row r, whose capped logits are z, and into `by`, the gradient of
/// this loss with respect to z, unless it is null.
template <class T>
void teacher_reference(const CrossEntropy& a, int64_t r, const T* z, T* loss, T* by) {
  const Teacher& t = a.teacher;
  const double heat = t.temperature, share = t.weight;
  const int32_t* const ids = t.ids + r * t.top;
  T max = z[0], sum = T(0);
  for (int64_t j = 1; j < a.vocab; ++j)
    if (real_part(z[j]) > real_part(max)) max = z[j];
  for (int64_t j = 0; j < a.vocab; ++j) sum += std::exp((z[j] - max) / heat);
  double all = 0;
  const auto unnormalised = [&](int64_t i) {
    return std::exp(static_cast<double>(t.logprobs[r * t.top + i]) / heat);
  };
  for (int64_t i = 0; i < t.top; ++i) all += unnormalised(i);
  *loss *= 1 - share;
  for (int64_t j = 0; by != nullptr && j < a.vocab; ++j)
    by[j] = by[j] * (1 - share) + share * heat * std::exp((z[j] - max) / heat) / sum;
  for (int64_t i = 0; i < t.top; ++i) {
    const double q = unnormalised(i) / all;
    if (q > 0) *loss += share * heat * heat * q * (std::log(q) - ((z[ids[i]] - max) / heat - std::log(sum)));
    if (by != nullptr) by[ids[i]] -= share * heat * q;
  }
}

/// losses [rows] and logits [rows, vocab] have the meaning of those in CrossEntropy; of the pointers of `a`,
/// only targets, weights and those of the teacher are read.
template <class T>
void cross_entropy_reference(const CrossEntropy& a, T* losses, T* logits, double grad_scale) {
  const double cap = a.softcap;
  for (int64_t r = 0; r < a.rows; ++r) {
    T* z = logits + r * (a.stride != 0 ? a.stride : a.vocab);
    T max = T(0);
    for (int64_t j = 0; j < a.vocab; ++j) {
      z[j] = soft_cap_reference(cap, z[j]);
      if (j == 0 || real_part(z[j]) > real_part(max)) max = z[j];
    }
    const bool masked = a.targets[r] == -100;
    T sum = T(0);
    for (int64_t j = 0; j < a.vocab; ++j) sum += std::exp(z[j] - max);
    const double weight = a.weights != nullptr ? static_cast<double>(a.weights[r]) : 1.0;
    T loss = masked ? T(0) : max + std::log(sum) - z[a.targets[r]];
    std::vector<T> by(static_cast<size_t>(a.vocab), T(0));  // the gradient by capped logits
    for (int64_t j = 0; j < a.vocab && a.backward && !masked; ++j)
      by[static_cast<size_t>(j)] = std::exp(z[j] - max) / sum - (j == a.targets[r] ? 1.0 : 0.0);
    if (a.teacher.top > 0 && !masked) teacher_reference(a, r, z, &loss, a.backward ? by.data() : nullptr);
    losses[r] = weight * loss;
    for (int64_t j = 0; j < a.vocab && a.backward; ++j) {
      const T ratio = cap > 0 ? z[j] / cap : T(0);
      z[j] = by[static_cast<size_t>(j)] * (T(1) - ratio * ratio) * (weight * grad_scale);
    }
  }
}

/// Computes the statistics [rows, 3] of a rank's part of the vocabulary; logits are as stored.
template <class T>
void cross_entropy_statistics_reference(const CrossEntropyStatistics& a, T* statistics, const T* logits) {
  for (int64_t r = 0; r < a.own.rows; ++r) {
    const T* z = logits + r * (a.own.stride != 0 ? a.own.stride : a.own.vocab);
    T* const out = statistics + r * kRowStatistics;
    out[0] = T(-std::numeric_limits<double>::infinity()), out[1] = out[2] = T(0);
    for (int64_t j = 0; j < a.own.vocab; ++j) {
      const T capped = soft_cap_reference(static_cast<double>(a.own.softcap), z[j]);
      if (real_part(capped) > real_part(out[0])) out[0] = capped;
      if (a.own.targets[r] - a.first_word == j) out[2] = capped;
    }
    for (int64_t j = 0; j < a.own.vocab; ++j)
      out[1] += std::exp(soft_cap_reference(static_cast<double>(a.own.softcap), z[j]) - out[0]);
  }
}

}  // namespace hawser::kernels
