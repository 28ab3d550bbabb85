#include "engine/nn/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hawser::nn {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

/// Llama 3.1: frequencies with wavelengths beyond the original context are divided by `factor`, those with
/// short ones are kept, with a ramp in between.
double llama3_frequency(double frequency, const RopeConfig& r) {
  const double wavelength = kTwoPi / frequency, context = static_cast<double>(r.original_context);
  const double low = context / r.low_freq_factor, high = context / r.high_freq_factor;
  if (wavelength < high) return frequency;
  if (wavelength > low) return frequency / r.factor;
  const double smooth = (context / wavelength - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
  return (1.0 - smooth) * frequency / r.factor + smooth * frequency;
}

/// Returns YaRN's ramp: 1 if dimension j keeps its frequency (many turns in the original context), 0 if its
/// frequency is divided by `factor`.
double yarn_keep(int64_t j, int64_t head_dim, const RopeConfig& r) {
  const auto dimension = [&](double turns) {
    return static_cast<double>(head_dim) *
           std::log(static_cast<double>(r.original_context) / (turns * kTwoPi)) / (2.0 * std::log(r.theta));
  };
  double low = dimension(r.beta_fast), high = dimension(r.beta_slow);
  if (r.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  return 1.0 - std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
}

double attention_factor(const RopeConfig& r) {
  if (r.scaling != RopeScaling::kYarn) return 1.0;
  if (r.attention_factor > 0) return r.attention_factor;
  if (r.mscale > 0 && r.mscale_all_dim > 0)
    return yarn_mscale(r.factor, r.mscale) / yarn_mscale(r.factor, r.mscale_all_dim);
  return yarn_mscale(r.factor, 1.0);
}

void fill(float* cos_sin, const RopeConfig& rope, int64_t head_dim, int64_t positions) {
  const int64_t half = head_dim / 2;
  const double factor = attention_factor(rope);
  for (int64_t j = 0; j < half; ++j) {
    const double frequency = rope_frequency(j, head_dim, rope);
    for (int64_t p = 0; p < positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      cos_sin[(p * half + j) * 2] = static_cast<float>(std::cos(angle) * factor);
      cos_sin[(p * half + j) * 2 + 1] = static_cast<float>(std::sin(angle) * factor);
    }
  }
}

}  // namespace

double rope_frequency(int64_t j, int64_t head_dim, const RopeConfig& r) {
  const double frequency = std::pow(r.theta, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
  switch (r.scaling) {
    case RopeScaling::kNone:
      return frequency;
    case RopeScaling::kLinear:
      return frequency / r.factor;
    case RopeScaling::kLlama3:
      return llama3_frequency(frequency, r);
    case RopeScaling::kYarn: {
      const double keep = yarn_keep(j, head_dim, r);
      return frequency / r.factor * (1.0 - keep) + frequency * keep;
    }
  }
  return frequency;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

int64_t rope_table_size(const ModelConfig& model, int64_t positions) {
  if (model.position != Position::kRotary) return 0;
  return positions * model.rope_dim() * (model.rope.window_theta > 0 ? 2 : 1);
}

int64_t rope_table_begin(const ModelConfig& model, int64_t layer, int64_t positions) {
  const bool second = model.rope.window_theta > 0 && model.window_of(layer) > 0;
  return second ? positions * model.rope_dim() : 0;
}

void fill_rope_table(float* cos_sin, const ModelConfig& model, int64_t positions) {
  fill(cos_sin, model.rope, model.rope_dim(), positions);
  if (model.rope.window_theta == 0) return;
  RopeConfig of_windows;
  of_windows.theta = model.rope.window_theta;
  fill(cos_sin + positions * model.rope_dim(), of_windows, model.rope_dim(), positions);
}

}  // namespace hawser::nn
