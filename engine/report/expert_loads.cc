#include "engine/report/expert_loads.h"

#include <algorithm>

#include "engine/base/json.h"
#include "engine/nn/moe/balance.h"

namespace hawser::train {

OrderedJson expert_loads(const nn::ModelConfig& model, const std::vector<int64_t>& tallies,
                         const StepRows& step) {
  if (tallies.empty()) return nullptr;
  OrderedJson layers = OrderedJson::array();
  auto tally = tallies.begin();
  const auto rows = static_cast<double>(step.rows), all = rows * static_cast<double>(step.positions);
  const auto divided = [](int64_t x, double by) { return by > 0 ? static_cast<double>(x) / by : 0.0; };
  for (int64_t layer = 0; layer < model.blocks(); ++layer) {
    if (!model.is_sparse(layer)) continue;
    const auto end = tally + model.moe.experts;
    int64_t choices = 0;
    for (auto load = tally; load != end; ++load) choices += *load;
    const double mean = static_cast<double>(choices) / static_cast<double>(model.moe.experts);
    const auto [least, most] = std::minmax_element(tally, end);
    layers.push_back(
        {{"layer", layer},
         {"most", divided(*most, mean)},
         {"least", divided(*least, mean)},
         {"idle", std::count(tally, end, 0)},
         {"rounds", divided(end[kernels::kTallyRounds], static_cast<double>(step.calls))},
         {"dropped", divided(end[kernels::kTallyDropped], static_cast<double>(choices))},
         {"balance_loss", divided(end[kernels::kTallyBalance], rows / kernels::kTallyBalanceUnit)},
         {"z_loss", divided(end[kernels::kTallySquares], all / kernels::kTallySquaresUnit)}});
    tally += nn::tally_words(model.moe);
  }
  return layers;
}

}  // namespace hawser::train
