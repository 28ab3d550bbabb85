#include "engine/run/eval_objective.h"

#include <optional>
#include <vector>

#include "engine/execute/batch_sources.h"

namespace hawser::train {
namespace {

class EvalOfPairs final : public EvalObjective {
 public:
  EvalOfPairs(const optim::ObjectiveConfig& objective, int64_t rows, int64_t seq)
      : objective_(objective), seq_(seq), losses_(static_cast<size_t>(rows * seq)) {}
  /// One, because a run has room for the losses of one micro-batch.
  int64_t at_once(int64_t) const override { return 1; }
  float* token_losses() override { return losses_.data(); }
  BatchSource* load_from(BatchSource* from, int64_t rows) override {
    return &loaded_.emplace(from, objective_, rows, seq_);
  }
  void add(PairSums* sums) const override { sums->add(objective_, *loaded_, losses_.data()); }

 private:
  const optim::ObjectiveConfig objective_;
  const int64_t seq_;
  std::vector<float> losses_;
  std::optional<PairsKept> loaded_;
};

}  // namespace

std::unique_ptr<EvalObjective> EvalObjective::make(const optim::ObjectiveConfig& objective, int64_t rows,
                                                   int64_t seq) {
  if (objective.weighs_targets()) return std::make_unique<EvalOfPairs>(objective, rows, seq);
  return std::make_unique<EvalObjective>();
}

}  // namespace hawser::train
