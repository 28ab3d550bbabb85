#include "engine/assembly/agreement_bytes.h"

#include "engine/execute/step_values.h"
#include "engine/parallel/traffic.h"

namespace hawser::train {

ObjectiveWords AgreementBytes::objective_words() const {
  return StepObjective::words(c_.objective, c_.batch.micro_batch);
}
int64_t AgreementBytes::count_words() const {
  return agreement_words(c_.mesh.world(), c_.model.ahead, objective_words().count);
}
int64_t AgreementBytes::norm_words() const { return kSumsWords + noted_words(c_.model); }

int64_t AgreementBytes::gathered_bytes() const {
  return (c_.mesh.world() - 1) * maxima_ * static_cast<int64_t>(sizeof(float));
}

int64_t AgreementBytes::of(const plan::Instruction& n) const {
  const int64_t ranks = c_.mesh.world();
  if (n.op == plan::Op::kCountTokens) return parallel::agreement_bytes(count_words(), ranks);
  if (n.op == plan::Op::kGradNorm && n.block < 0)
    return parallel::agreement_bytes(norm_words(), ranks) +
           parallel::agreement_bytes(objective_words().loss, ranks) + gathered_bytes();
  if (n.op == plan::Op::kObjective) return parallel::agreement_bytes(objective_words().rows, column_ranks_);
  return 0;
}

}  // namespace hawser::train
