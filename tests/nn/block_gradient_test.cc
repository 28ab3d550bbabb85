// Every variant of the model, whole: the engine's loss and gradients, which come from backwards written by
// hand, against the derivative of an obvious forward in double (reference_model.h), taken by complex step
// and, as a check on that, by central differences. Every element of every parameter takes part: each
// parameter is moved along directions of random signs, and some of its elements are moved alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <random>

#include "engine/config/config_tree.h"
#include "engine/nn/parameter.h"
#include "engine/train/trainer.h"
#include "kernels/include/levels.h"
#include "tests/harness/complex_step.h"
#include "tests/harness/kernel_levels.h"
#include "tests/nn/model_variants.h"
#include "tests/nn/reference_model.h"

namespace hawser::testing {
namespace {

// Complex step has no rounding of its own; fp64 differences of step h err by h^2 and 1e-16 / h.
constexpr double kCentralStep = 1e-5, kCentralError = 1e-6;
// Of the engine, in fp32, relative to the parameter's gradient norm.
constexpr double kGradientError = 5e-6, kLossError = 1e-6;

/// A direction in the space of one parameter's elements, and the loss's derivative along it.
struct Probe {
  const nn::Parameter* parameter;
  std::vector<double> direction;
  double derivative = 0;
};

class Reference {
 public:
  explicit Reference(const ModelVariant& variant)
      : config_(resolve_variant(variant)),
        table_(config_.model),
        batch_(variant_batch(variant, config_.model.vocab_size)),
        weights_(variant_weights(table_, config_.model.norm_weight_offset)),
        exact_(weights_.begin(), weights_.end()) {}

  const nn::ParameterTable& table() const { return table_; }
  const ReferenceBatch& batch() const { return batch_; }
  const std::vector<float>& weights() const { return weights_; }

  double loss() const { return loss_of(exact_); }
  double complex_step(const Probe& probe) const {
    std::vector<Complex> moved(exact_.begin(), exact_.end());
    for (size_t i = 0; i < probe.direction.size(); ++i)
      moved[static_cast<size_t>(probe.parameter->offset) + i] +=
          Complex(0, kComplexStep * probe.direction[i]);
    return loss_of(moved).imag() / kComplexStep;
  }
  double central_difference(const Probe& probe) const {
    const auto at = [&](double step) {
      std::vector<double> moved = exact_;
      for (size_t i = 0; i < probe.direction.size(); ++i)
        moved[static_cast<size_t>(probe.parameter->offset) + i] += step * probe.direction[i];
      return loss_of(moved);
    };
    return (at(kCentralStep) - at(-kCentralStep)) / (2 * kCentralStep);
  }

 private:
  template <class T>
  T loss_of(const std::vector<T>& weights) const {
    return ReferenceModel<T>(config_.model, table_, weights, exact_, philox_derive(config_.seed, 2, 0))
        .loss(batch_);
  }

  config::ResolvedConfig config_;
  nn::ParameterTable table_;
  ReferenceBatch batch_;
  std::vector<float> weights_;
  std::vector<double> exact_;
};

std::vector<Probe> make_probes(const nn::ParameterTable& table) {
  std::vector<Probe> probes;
  std::mt19937 random(17);
  for (const nn::Parameter& p : table.all()) {
    const auto size = static_cast<size_t>(p.size);
    for (int i = 0; i < 2; ++i) {
      probes.push_back({&p, std::vector<double>(size)});
      for (double& value : probes.back().direction) value = random() % 2 == 0 ? 1.0 : -1.0;
    }
    for (int i = 0; i < 3; ++i) {
      probes.push_back({&p, std::vector<double>(size, 0.0)});
      probes.back().direction[random() % size] = 1.0;
    }
  }
  return probes;
}

/// The engine's gradients in the flat layout; checks its loss.
std::vector<double> engine_gradients(const ModelVariant& variant, const Reference& reference, double loss,
                                     const char* level, int32_t threads) {
  std::atomic<bool> cancel{false};
  const auto config = config::ConfigTree::from_json(variant_config(variant, level, threads));
  const std::unique_ptr<train::Trainer> trainer = train::Trainer::create(config, false, &cancel);
  for (const nn::Parameter& p : reference.table().all())
    trainer->tensor_set(train::TensorKind::kWeight, p.name, reference.weights().data() + p.offset,
                        static_cast<size_t>(p.size) * 4);
  const ReferenceBatch& b = reference.batch();
  trainer->push({b.rows, b.seq, b.tokens.data(), b.targets.data(),
                 b.document_begin.empty() ? nullptr : b.document_begin.data()});
  EXPECT_NEAR(trainer->forward_backward().loss, loss, kLossError * loss) << level;
  std::vector<double> gradients(static_cast<size_t>(reference.table().flat_size()));
  for (const nn::Parameter& p : reference.table().all()) {
    std::vector<float> gradient(static_cast<size_t>(p.size));
    trainer->tensor_get(train::TensorKind::kGradient, p.name, gradient.data(), gradient.size() * 4);
    std::copy(gradient.begin(), gradient.end(), gradients.begin() + p.offset);
  }
  return gradients;
}

double norm(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

/// What errors of a probe's derivative are measured against: the gradient norm of its parameter, or a part of
/// the whole gradient's where that vanishes (a key's bias without rotation moves every score alike).
double scale_of(const Probe& probe, const std::vector<double>& gradients) {
  return std::max(norm(gradients.data() + probe.parameter->offset, probe.parameter->size),
                  1e-2 * norm(gradients.data(), static_cast<int64_t>(gradients.size())));
}

class BlockGradient : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(BlockGradient, EqualsTheDerivativeOfAnObviousForward) {
  const Reference reference(GetParam());
  std::vector<Probe> probes = make_probes(reference.table());
  for (Probe& probe : probes) probe.derivative = reference.complex_step(probe);
  const double loss = reference.loss();

  bool first = true;
  double worst = 0, worst_central = 0;
  for (const kernels::KernelTable* level : kernel_tables()) {
    const std::vector<double> gradients =
        engine_gradients(GetParam(), reference, loss, level->name, first ? 1 : 2);
    for (const Probe& probe : probes) {
      const double scale = scale_of(probe, gradients);
      double derivative = 0;
      for (size_t i = 0; i < probe.direction.size(); ++i)
        derivative += gradients[static_cast<size_t>(probe.parameter->offset) + i] * probe.direction[i];
      const double error = std::abs(derivative - probe.derivative) / scale;
      worst = std::max(worst, error);
      EXPECT_LE(error, kGradientError) << probe.parameter->name << " on " << level->name << ": " << derivative
                                       << ", by complex step " << probe.derivative;
      if (!first) continue;
      const double central = std::abs(reference.central_difference(probe) - probe.derivative) / scale;
      worst_central = std::max(worst_central, central);
      EXPECT_LE(central, kCentralError) << probe.parameter->name;
    }
    first = false;
  }
  RecordProperty("worst_error", std::to_string(worst * 1e6) + "e-6");
  RecordProperty("worst_central_error", std::to_string(worst_central * 1e9) + "e-9");
}

INSTANTIATE_TEST_SUITE_P(Variants, BlockGradient, ::testing::ValuesIn(model_variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hawser::testing
