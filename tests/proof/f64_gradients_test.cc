// f64 gradient tests: compare the gradients with complex-step derivatives of the same model along random
// directions. The two ways of differentiating share no code.
#include "engine/proof/f64_gradients.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/nn/parameter.h"
#include "tests/harness/complex_step.h"
#include "tests/nn/model_variants.h"

namespace hawser::testing {
namespace f64_gradients_test {

class F64Gradients : public ::testing::TestWithParam<ModelVariant> {};

TEST_P(F64Gradients, AreThoseOfComplexStep) {
  const config::ResolvedConfig config = resolve_variant(GetParam());
  const nn::ParameterTable table(config.model);
  const train::FlatLayout layout(table);
  const ReferenceBatch batch = variant_batch(GetParam(), config.model.vocab_size);
  const std::vector<float> start = variant_weights(table, config.model.norm_weight_offset);
  const std::vector<double> weights(start.begin(), start.end());
  const std::vector<double> gradients =
      train::f64_gradients(config.model, table, weights, batch, config.seed);
  double whole = 0;
  for (const double g : gradients) whole += g * g;
  std::mt19937 random(3);
  for (const nn::Parameter& p : table.all()) {
    std::vector<Complex> moved(weights.begin(), weights.end());
    double along = 0, length = 0;
    const auto first = static_cast<size_t>(layout.at(p));
    for (size_t i = first; i < first + static_cast<size_t>(p.size); ++i) {
      const double sign = random() % 2 == 0 ? 1 : -1;
      moved[i] += Complex(0, kComplexStep * sign);
      along += sign * gradients[i];
      length += gradients[i] * gradients[i];
    }
    const Complex loss =
        train::ReferenceModel<Complex>(config.model, table, moved, weights, philox_derive(config.seed, 2, 0))
            .loss(batch);
    EXPECT_NEAR(along, loss.imag() / kComplexStep, 1e-11 * std::sqrt(length) + 1e-14 * std::sqrt(whole))
        << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, F64Gradients, ::testing::ValuesIn(model_variants()),
                         [](const auto& info) { return info.param.name; });

}  // namespace f64_gradients_test
}  // namespace hawser::testing
