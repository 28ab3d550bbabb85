// Compares, for every variant of the model, the engine's loss and gradients, from hand-written backwards,
// with the derivative of a simple forward in double (proof/reference_model.h), taken by complex step
// and checked by central differences. All elements are covered: each parameter is moved along directions of
// random signs, and some of its elements are moved alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>
#include <random>

#include "engine/config/config_tree.h"
#include "engine/nn/parameter.h"
#include "engine/run/trainer.h"
#include "kernels/include/levels.h"
#include "tests/harness/complex_step.h"
#include "tests/harness/kernel_levels.h"
#include "tests/nn/model_memory.h"
#include "tests/nn/model_variants.h"
#include "tests/nn/reference_reward.h"

namespace hawser::testing {
namespace block_gradient_test {

// The complex step has no rounding error; central differences of five points have errors of h^4 and 1e-16 /
// h.
constexpr double kCentralStep = 3e-5, kCentralError = 1e-6;
// Errors of the engine, which computes in fp32: that of the whole gradient relative to its norm, that of a
// parameter's gradient relative to its norm (see scale_of), and that of the loss.
constexpr double kWholeError = 1e-6, kGradientError = 1e-5, kLossError = 1e-6;

/// A direction in the space of one parameter's elements, and the loss's derivative along it.
struct Probe {
  const nn::Parameter* parameter;
  std::vector<double> direction;
  bool single = false;  ///< moves one element
  double derivative = 0;
};

class Reference {
 public:
  explicit Reference(const ModelVariant& variant)
      : config_(resolve_variant(variant)),
        table_(config_.model),
        layout_(table_),
        batch_(variant_batch(variant, config_.model.vocab_size)),
        weights_(variant_weights(table_, config_.model.norm_weight_offset)),
        exact_(weights_.begin(), weights_.end()) {
    batch_.ahead_weight = config_.train.ahead_weight;
  }

  const nn::ParameterTable& table() const { return table_; }
  const FlatLayout& layout() const { return layout_; }
  const ReferenceBatch& batch() const { return batch_; }
  const std::vector<float>& weights() const { return weights_; }

  /// Returns the cross entropy of the next token alone.
  double loss() const {
    Reference next = *this;
    next.batch_.ahead_weight = 0;
    return next.loss_of(exact_, {});
  }
  double complex_step(const Probe& probe) const {
    std::vector<Complex> moved(exact_.begin(), exact_.end());
    for (size_t i = 0; i < probe.direction.size(); ++i)
      moved[first(probe) + i] += Complex(0, kComplexStep * probe.direction[i]);
    return loss_of(moved).imag() / kComplexStep;
  }
  double central_difference(const Probe& probe) const {
    const auto at = [&](double step) {
      std::vector<double> moved = exact_;
      for (size_t i = 0; i < probe.direction.size(); ++i)
        moved[first(probe) + i] += step * probe.direction[i];
      return loss_of(moved);
    };
    const double h = kCentralStep;
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
  }

 private:
  size_t first(const Probe& probe) const { return static_cast<size_t>(layout_.at(*probe.parameter)); }
  template <class T>
  T loss_of(const std::vector<T>& weights) const {
    return loss_of(weights, config_.moe);
  }
  template <class T>
  T loss_of(const std::vector<T>& weights, const nn::MoeTraining& moe) const {
    train::ReferenceModel<T> model(config_.model, table_, weights, exact_, philox_derive(config_.seed, 2, 0),
                                   moe);
    return config_.model.has_score() ? reference_reward_loss(model, batch_) : model.loss(batch_);
  }

  config::ResolvedConfig config_;
  nn::ParameterTable table_;
  FlatLayout layout_;
  ReferenceBatch batch_;
  std::vector<float> weights_;
  std::vector<double> exact_;
};

std::vector<Probe> make_probes(const nn::ParameterTable& table) {
  std::vector<Probe> probes;
  std::mt19937 random(17);
  for (const nn::Parameter& p : table.all()) {
    if (!p.trainable) continue;
    const auto size = static_cast<size_t>(p.size);
    for (int i = 0; i < 2; ++i) {
      probes.push_back({&p, std::vector<double>(size)});
      for (double& value : probes.back().direction) value = random() % 2 == 0 ? 1.0 : -1.0;
    }
    for (int i = 0; i < 3; ++i) {
      probes.push_back({&p, std::vector<double>(size, 0.0), true});
      probes.back().direction[random() % size] = 1.0;
    }
  }
  return probes;
}

/// Returns the engine's gradients in the flat layout; checks its loss.
std::vector<double> engine_gradients(const ModelVariant& variant, const Reference& reference, double loss,
                                     const char* level, int32_t threads) {
  std::atomic<bool> cancel{false};
  const auto config = config::ConfigTree::from_json(variant_config(variant, level, threads));
  const std::unique_ptr<train::Trainer> trainer = train::Trainer::create(config, false, &cancel);
  for (const nn::Parameter& p : reference.table().all())
    trainer->tensors().set(train::TensorKind::kWeight, p.name,
                           reference.weights().data() + reference.layout().at(p),
                           static_cast<size_t>(p.size) * 4);
  const ReferenceBatch& b = reference.batch();
  trainer->push({b.rows, b.seq, b.tokens.data(), b.targets.data(),
                 b.document_begin.empty() ? nullptr : b.document_begin.data()});
  EXPECT_NEAR(trainer->forward_backward().loss, loss, kLossError * loss) << level;
  std::vector<double> gradients(static_cast<size_t>(reference.layout().size()));
  for (const nn::Parameter& p : reference.table().all()) {
    if (!p.trainable) continue;
    std::vector<float> gradient(static_cast<size_t>(p.size));
    trainer->tensors().get(train::TensorKind::kGradient, p.name, gradient.data(), gradient.size() * 4);
    std::copy(gradient.begin(), gradient.end(), gradients.begin() + reference.layout().at(p));
  }
  return gradients;
}

double norm(const double* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

/// Returns the scale for the error of a probe's derivative: the gradient norm of its parameter, or a fraction
/// of the whole gradient's norm if that is zero (a key's bias without rotation shifts all scores equally).
double scale_of(const Probe& probe, const FlatLayout& layout, const std::vector<double>& gradients) {
  return std::max(norm(gradients.data() + layout.at(*probe.parameter), probe.parameter->size),
                  1e-2 * norm(gradients.data(), static_cast<int64_t>(gradients.size())));
}

double along(const Probe& probe, const FlatLayout& layout, const std::vector<double>& gradients) {
  double sum = 0;
  for (size_t i = 0; i < probe.direction.size(); ++i)
    sum += gradients[static_cast<size_t>(layout.at(*probe.parameter)) + i] * probe.direction[i];
  return sum;
}

class BlockGradient : public ::testing::TestWithParam<ModelVariant> {};

/// Returns the probes with their derivatives by complex step, checked by central differences.
std::vector<Probe> differentiated_probes(const Reference& reference) {
  std::vector<Probe> probes = make_probes(reference.table());
  double largest = 0;
  for (Probe& probe : probes) {
    probe.derivative = reference.complex_step(probe);
    largest = std::max(largest, std::abs(probe.derivative));
  }
  for (const Probe& probe : probes) {
    if (probe.single) continue;
    const double scale = std::max(std::abs(probe.derivative), 1e-2 * largest);
    EXPECT_NEAR(reference.central_difference(probe), probe.derivative, kCentralError * scale)
        << probe.parameter->name;
  }
  return probes;
}

TEST_P(BlockGradient, OfTheEngineEqualsTheDerivativeOfAnObviousForward) {
  const Reference reference(GetParam());
  const std::vector<Probe> probes = differentiated_probes(reference);
  const double loss = reference.loss();

  int32_t threads = 1;
  double worst = 0, worst_whole = 0;
  for (const kernels::KernelTable* level : kernel_tables()) {
    const std::vector<double> gradients = engine_gradients(GetParam(), reference, loss, level->name, threads);
    threads = 2;
    double squares = 0, directions = 0;
    for (const Probe& probe : probes) {
      const double derivative = along(probe, reference.layout(), gradients),
                   difference = std::abs(derivative - probe.derivative);
      const double error = difference / scale_of(probe, reference.layout(), gradients);
      worst = std::max(worst, error);
      EXPECT_LE(error, kGradientError) << probe.parameter->name << " on " << level->name << ": " << derivative
                                       << ", by complex step " << probe.derivative;
      // Along random signs, the mean square of an error is the square of its norm.
      if (probe.single) continue;
      squares += difference * difference;
      directions += 1;
    }
    const auto& parameters = reference.table().all();
    const auto trained =
        std::count_if(parameters.begin(), parameters.end(), [](const auto& p) { return p.trainable; });
    const double per_parameter = directions / static_cast<double>(trained);
    const double whole =
        std::sqrt(squares / per_parameter) / norm(gradients.data(), static_cast<int64_t>(gradients.size()));
    worst_whole = std::max(worst_whole, whole);
    EXPECT_LE(whole, kWholeError) << level->name;
  }
  RecordProperty("worst_error", std::to_string(worst * 1e6) + "e-6");
  RecordProperty("whole_error", std::to_string(worst_whole * 1e6) + "e-6");
}

INSTANTIATE_TEST_SUITE_P(Variants, BlockGradient, ::testing::ValuesIn(model_variants()),
                         [](const auto& variant) { return variant.param.name; });
INSTANTIATE_TEST_SUITE_P(Scores, BlockGradient, ::testing::ValuesIn(score_variants()),
                         [](const auto& variant) { return variant.param.name; });

INSTANTIATE_TEST_SUITE_P(Ahead, BlockGradient, ::testing::ValuesIn(ahead_variants()),
                         [](const auto& variant) { return variant.param.name; });

}  // namespace block_gradient_test
}  // namespace hawser::testing
