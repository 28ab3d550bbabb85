#include "tests/harness/f64_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/proof/f64_gradients.h"

namespace hawser::testing {

std::vector<double> flat_weights(LayoutRun& run) {
  const nn::ParameterTable table(run.trainer().config().model);  // of complete parameters
  const train::FlatLayout flat(table);
  std::vector<double> weights(static_cast<size_t>(flat.size()));
  for (const nn::Parameter& p : table.all()) {
    std::vector<float> values(static_cast<size_t>(p.size));
    run.trainer().tensors().get(train::TensorKind::kWeight, p.name, values.data(),
                                values.size() * sizeof(float));
    std::copy(values.begin(), values.end(), weights.begin() + flat.at(p));
  }
  return weights;
}

StepRecord expect_f64_gradients(LayoutRun& run, const train::ReferenceBatch& batch) {
  const config::ResolvedConfig& config = run.trainer().config();
  const nn::ParameterTable table(config.model);
  const train::FlatLayout flat(table);
  const std::vector<double> expected =
      train::f64_gradients(config.model, table, flat_weights(run), batch, config.seed);
  StepRecord record = run.step();
  for (const nn::Parameter& p : table.all()) {
    const std::vector<float>& found = record.gradients.at(p.name);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const double want = expected[static_cast<size_t>(flat.at(p)) + i];
      difference += std::pow(static_cast<double>(found[i]) - want, 2), norm += want * want;
    }
    EXPECT_LE(std::sqrt(difference), 2e-5 * std::sqrt(norm) + 1e-7) << p.name;
  }
  return record;
}

}  // namespace hawser::testing
