// Reference for the optimizers: the formulas of their papers for one element, over the number type T; and
// stochastic rounding. `a` has the arguments of the step for either storage (AdamW or AdamWBf16, for
// instance).
#pragma once

#include <bit>

#include "kernels/cpu/reference_number.h"
#include "kernels/cpu/state_records_reference.h"
#include "kernels/include/muon.h"

namespace hawser::kernels {

template <class Args>
double learning_rate(const Args& a, const OptimizerScalars& s) {
  return static_cast<double>(s.lr) * static_cast<double>(a.rate);
}

template <class Args, class T>
void adamw_reference(const Args& a, const OptimizerScalars& s, T& w, T& m, T& v, T grad) {
  const double beta1 = a.beta1, beta2 = a.beta2;
  const T g = grad * static_cast<double>(s.grad_scale);
  m = beta1 * m + (1.0 - beta1) * g;
  v = beta2 * v + (1.0 - beta2) * g * g;
  const T step = (m / static_cast<double>(s.bias_correction1)) /
                 (std::sqrt(v / static_cast<double>(s.bias_correction2)) + static_cast<double>(a.eps));
  w = w - learning_rate(a, s) * static_cast<double>(a.weight_decay) * w - learning_rate(a, s) * step;
}

/// One record of 64 elements of which the first has number `element`: decode, AdamW, encode.
inline void adamw8_reference(const AdamW8& a, const OptimizerScalars& s, int64_t element, double* w,
                             uint8_t* m_record, uint8_t* v_record, const double* grad) {
  std::vector<double> m = state_numbers(DType::kS8Block, m_record);
  std::vector<double> v = state_numbers(DType::kU8Block, v_record);
  for (size_t i = 0; i < m.size(); ++i) {
    const SettingsRun* run = a.runs;
    while (run->end <= element + static_cast<int64_t>(i)) ++run;
    AdamW one;
    one.beta1 = a.beta1, one.beta2 = a.beta2, one.eps = a.eps;
    one.weight_decay = run->weight_decay, one.rate = run->rate;
    adamw_reference(one, s, w[i], m[i], v[i], grad[i]);
  }
  std::ranges::copy(state_record(DType::kS8Block, m), m_record);
  std::ranges::copy(state_record(DType::kU8Block, v), v_record);
}

template <class Args, class T>
void sgd_reference(const Args& a, const OptimizerScalars& s, T& w, T& buf, T grad) {
  const double momentum = a.momentum;
  const T g = grad * static_cast<double>(s.grad_scale) + static_cast<double>(a.weight_decay) * w;
  buf = momentum * buf + g;
  w = w - learning_rate(a, s) * (a.nesterov ? g + momentum * buf : buf);
}

template <class Args, class T>
void lion_reference(const Args& a, const OptimizerScalars& s, T& w, T& m, T grad) {
  const double beta1 = a.beta1, beta2 = a.beta2;
  const T g = grad * static_cast<double>(s.grad_scale);
  const T c = beta1 * m + (1.0 - beta1) * g;
  const double sign = c > 0 ? 1.0 : c < 0 ? -1.0 : 0.0;
  w = w - learning_rate(a, s) * static_cast<double>(a.weight_decay) * w - learning_rate(a, s) * sign;
  m = beta2 * m + (1.0 - beta2) * g;
}

template <class T>
void muon_momentum_reference(const MuonMomentum& a, const OptimizerScalars& s, T& m, T& u, T grad) {
  const double momentum = a.momentum;
  const T g = grad * static_cast<double>(s.grad_scale);
  m = momentum * m + (1.0 - momentum) * g;
  u = (1.0 - momentum) * g + momentum * m;
}

template <class T>
void muon_update_reference(const MuonUpdate& a, const OptimizerScalars& s, T& w, T direction) {
  w = w - learning_rate(a, s) * static_cast<double>(a.weight_decay) * w -
      learning_rate(a, s) * static_cast<double>(a.scale) * direction;
}

/// Returns x as bf16, rounded with the bits of element `i` of a range.
inline double round_stochastically_reference(double x, const RoundingRun& run, uint64_t step, int64_t i,
                                             RoundingUse use) {
  const auto element = static_cast<uint64_t>(rounded_element(run, i));
  const uint32_t word = rounding_words(run.key, step, element / 4).v[element % 4];
  const uint16_t bits =
      round_stochastically(std::bit_cast<uint32_t>(static_cast<float>(x)), rounding_bits(word, use));
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace hawser::kernels
