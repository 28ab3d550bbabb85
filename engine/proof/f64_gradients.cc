#include "engine/proof/f64_gradients.h"

#include "engine/base/interrupt.h"
#include "engine/proof/taped_number.h"

namespace hawser::train {

std::vector<double> f64_gradients(const nn::ModelConfig& model, const nn::ParameterTable& table,
                                  const std::vector<double>& weights, const ReferenceBatch& batch,
                                  uint64_t seed, const nn::MoeTraining& moe, double* router_margin) {
  Tape tape;
  std::vector<TapedNumber> variables;
  variables.reserve(weights.size());
  for (const double w : weights) variables.emplace_back(w, &tape);
  const auto count = static_cast<int32_t>(weights.size());

  ReferenceModel<TapedNumber> reference(model, table, variables, weights, philox_derive(seed, 2, 0), moe);
  std::vector<double> gradients(weights.size());
  for (int64_t row = 0; row < batch.rows; ++row) {
    check_interrupt();
    const TapedNumber loss = reference.row_loss(batch, row);
    if (loss.at() != Tape::kConstant) {
      const std::vector<double>& slopes = tape.derivatives(loss.at(), count);
      for (size_t i = 0; i < gradients.size(); ++i) gradients[i] += slopes[i];
    }
    tape.cut(count);
  }
  if (router_margin != nullptr) *router_margin = reference.least_margin();
  for (double& g : gradients) g /= batch.count();
  return gradients;
}

}  // namespace hawser::train
