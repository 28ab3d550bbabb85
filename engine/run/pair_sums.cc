#include "engine/run/pair_sums.h"

#include <algorithm>

#include "engine/execute/row_logps.h"

namespace hawser::train {

void PairSums::add(const optim::ObjectiveConfig& objective, const PairsKept& rows, const float* losses) {
  const size_t count = rows.references.size(), seq = rows.targets.size() / count;
  const auto answer = [&](size_t row) -> optim::Answer {
    const int32_t* const targets = rows.targets.data() + row * seq;
    ExactSum logp;
    add_logps(&logp, losses + row * seq, targets, static_cast<int64_t>(seq));
    const auto learned = std::count_if(targets, targets + seq, [](int32_t t) { return t != -100; });
    return {logp.value(), static_cast<double>(rows.references[row]), static_cast<double>(learned)};
  };
  for (size_t row = 0; row < count; row += 2) add(objective, answer(row), answer(row + 1));
}

void PairSums::add(const optim::ObjectiveConfig& objective, const optim::Answer& c, const optim::Answer& r) {
  const optim::PairLoss p = optim::pair_loss(objective, c, r, 0);
  losses.add(p.loss);
  chosen.add(p.chosen_reward);
  rejected.add(p.rejected_reward);
  chosen_logps.add(c.logp);
  chosen_tokens += static_cast<int64_t>(c.tokens);
  pairs += 1;
  half_wins += optim::half_wins(p);
}

void PairSums::merge(const PairSums& other) {
  losses.merge(other.losses);
  chosen.merge(other.chosen);
  rejected.merge(other.rejected);
  chosen_logps.merge(other.chosen_logps);
  chosen_tokens += other.chosen_tokens, pairs += other.pairs, half_wins += other.half_wins;
}

void PairSums::normalise() {
  for (ExactSum* sum : {&losses, &chosen, &rejected, &chosen_logps}) sum->normalise();
}

double PairSums::loss(const optim::ObjectiveConfig& objective) const {
  return losses.value() / static_cast<double>(pairs) -
         objective.sft_weight * (chosen_logps.value() / static_cast<double>(chosen_tokens));
}

optim::PairRewards PairSums::rewards() const {
  const auto count = static_cast<double>(pairs);
  return {chosen.value() / count, rejected.value() / count, static_cast<double>(half_wins) / (2 * count)};
}

}  // namespace hawser::train
