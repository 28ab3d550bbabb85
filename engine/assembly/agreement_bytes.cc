#include "engine/assembly/agreement_bytes.h"

#include "engine/execute/pair_objective.h"
#include "engine/execute/step_values.h"
#include "engine/nn/moe/balance.h"
#include "engine/parallel/traffic.h"

namespace hawser::train {

int64_t AgreementBytes::count_words() const { return agreement_words(c_.mesh.world(), c_.objective.pairs()); }
int64_t AgreementBytes::norm_words() const { return kSumsWords + nn::all_tally_words(c_.model); }
int64_t AgreementBytes::pair_summary() const {
  return c_.objective.pairs() ? PairObjective::kAgreedWords : 0;
}

int64_t AgreementBytes::of(const plan::Instruction& n) const {
  const int64_t ranks = c_.mesh.world();
  if (n.op == plan::Op::kCountTokens) return parallel::agreement_bytes(count_words(), ranks);
  if (n.op == plan::Op::kGradNorm && n.block < 0)
    return parallel::agreement_bytes(norm_words(), ranks) + parallel::agreement_bytes(pair_summary(), ranks);
  if (n.op == plan::Op::kObjective)
    return parallel::agreement_bytes(PairObjective::row_words(c_.batch.micro_batch), column_ranks_);
  return 0;
}

}  // namespace hawser::train
