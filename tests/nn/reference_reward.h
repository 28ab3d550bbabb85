// Reference reward: the loss of a reward model as in its paper (Ouyang et al., arXiv:2203.02155, equation 1),
// over any number type.
#pragma once

#include <cmath>
#include <complex>

#include "engine/proof/reference_model.h"

namespace hawser::testing {

/// Returns the head's number at the token that the row's last target names.
template <class T>
T reference_score(train::ReferenceModel<T>& model, const train::ReferenceBatch& batch, int64_t row) {
  const int32_t* const targets = batch.targets.data() + row * batch.seq;
  int64_t scored = batch.seq - 1;
  while (targets[scored - 1] == -100) --scored;
  return model.row_logits(batch, row)[static_cast<size_t>(scored)][0];
}

/// Returns the mean over pairs of rows, the better one first, of -log sigmoid of the difference of their
/// scores.
template <class T>
T reference_reward_loss(train::ReferenceModel<T>& model, const train::ReferenceBatch& batch) {
  using std::exp, std::log;
  T sum = T(0);
  for (int64_t row = 0; row < batch.rows; row += 2)
    sum += log(T(1) + exp(reference_score(model, batch, row + 1) - reference_score(model, batch, row)));
  return sum / (static_cast<double>(batch.rows) / 2);
}

}  // namespace hawser::testing
