#include "engine/execute/pair_objective.h"

#include <algorithm>

#include "engine/base/error.h"
#include "engine/execute/row_logps.h"

namespace hawser::train {
namespace {

static_assert(sizeof(ExactSum) == ExactSum::kWords * sizeof(int64_t));

ExactSum* sum_at(std::vector<int64_t>& words, int64_t i) {
  return reinterpret_cast<ExactSum*>(words.data() + i * ExactSum::kWords);
}
const ExactSum* sum_at(const std::vector<int64_t>& words, int64_t i) {
  return reinterpret_cast<const ExactSum*>(words.data() + i * ExactSum::kWords);
}

/// Counts the targets of a row; `rows` must have all columns.
int64_t targets_in(const MicroBatch& rows, int64_t row) {
  const int32_t* const targets = rows.targets + row * rows.seq;
  return std::count_if(targets, targets + rows.seq, [](int32_t t) { return t != -100; });
}

constexpr int64_t kLoss = 0, kChosen = 1, kRejected = 2, kHalfWins = 3 * ExactSum::kWords;

}  // namespace

PairObjective::PairObjective(const ObjectiveSetup& setup)
    : s_(setup),
      references_(static_cast<size_t>(s_.micro_batches * s_.rows)),
      row_sums_(static_cast<size_t>(row_words(s_.rows))),
      row_weight_(static_cast<size_t>(s_.rows)),
      sums_(static_cast<size_t>(kAgreedWords)) {}

void PairObjective::begin(int64_t chosen_targets, int64_t step_rows) {
  chosen_targets_ = chosen_targets;
  pairs_ = step_rows / 2;
  std::fill(sums_.begin(), sums_.end(), 0);
}

float* PairObjective::references(int32_t micro_batch) {
  return s_.objective.has_reference() ? references_.data() + micro_batch * s_.rows : nullptr;
}

int64_t PairObjective::count(const MicroBatch& rows) const {
  int64_t chosen = 0;
  for (int64_t row = 0; row < rows.batch; ++row) {
    const int64_t targets = targets_in(rows, row);
    if (targets == 0)
      fail(
          Code::kDataInvalid,
          "the {} answer of a pair (sample {}) has no target: each answer needs at least one unmasked target",
          row % 2 == 0 ? "chosen" : "rejected", rows.samples[row]);
    if (row % 2 == 0) chosen += targets;
  }
  return chosen;
}

void PairObjective::apply_objective(int32_t micro_batch, const float* losses, const MicroBatch& rows,
                                    const MicroBatch& own) {
  std::fill(row_sums_.begin(), row_sums_.end(), 0);
  for (int64_t row = 0; row < own.batch; ++row)
    add_logps(sum_at(row_sums_, row), losses + row * own.seq, own.targets + row * own.seq, own.seq);
  if (s_.cp) s_.cp->wait(s_.cp->all_reduce_i64(row_sums_.data(), row_words(own.batch)));
  const float* const references = this->references(micro_batch);
  const auto answer = [&](int64_t row) -> optim::Answer {
    return {sum_at(row_sums_, row)->value(), references ? static_cast<double>(references[row]) : 0.0,
            static_cast<double>(targets_in(rows, row))};
  };
  const auto pairs = static_cast<double>(pairs_);
  for (int64_t row = 0; row < own.batch; row += 2) {
    const optim::PairLoss p = optim::pair_loss(s_.objective, answer(row), answer(row + 1),
                                               pairs / static_cast<double>(chosen_targets_));
    // A target's loss is its negative log-probability.
    row_weight_[static_cast<size_t>(row)] = -p.by_chosen / pairs;
    row_weight_[static_cast<size_t>(row + 1)] = -p.by_rejected / pairs;
    if (!s_.counts) continue;
    sum_at(sums_, kLoss)->add(p.loss);
    sum_at(sums_, kChosen)->add(p.chosen_reward);
    sum_at(sums_, kRejected)->add(p.rejected_reward);
    sums_[kHalfWins] += optim::half_wins(p);
  }
  for (int64_t i = 0; i < own.batch * own.seq; ++i)
    own.weights[i] =
        own.targets[i] == -100 ? 0.0f : static_cast<float>(row_weight_[static_cast<size_t>(i / own.seq)]);
}

double PairObjective::agree(double) {
  for (const int64_t sum : {kLoss, kChosen, kRejected}) sum_at(sums_, sum)->normalise();
  if (s_.dp) s_.dp->wait(s_.dp->all_reduce_i64(sums_.data(), kAgreedWords));
  return sum_at(sums_, kLoss)->value() / static_cast<double>(pairs_);
}

optim::PairRewards PairObjective::rewards() const {
  const auto pairs = static_cast<double>(pairs_);
  return {sum_at(sums_, kChosen)->value() / pairs, sum_at(sums_, kRejected)->value() / pairs,
          static_cast<double>(sums_[kHalfWins]) / (2 * pairs)};
}

}  // namespace hawser::train
