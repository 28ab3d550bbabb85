#include "engine/report/expert_summary.h"

#include <fmt/format.h>

#include "engine/assembly/engine_plans.h"
#include "engine/nn/moe/balance.h"

namespace hawser::train {

std::string expert_summary(const nn::Model& model, const config::ResolvedConfig& config) {
  const nn::MoeConfig& moe = config.model.moe;
  if (moe.experts == 0) return "";
  std::string text =
      fmt::format("active          {:>14} of one token, which goes to {} of {} experts in {} of {} layers\n",
                  model.active_parameters(), moe.top_k, moe.experts, nn::sparse_layers(config.model),
                  config.model.blocks());
  if (config.moe.capacity_factor > 0)
    text += fmt::format(
        "dispatch        capacity {}: later tokens are dropped, which depends on how rows are divided: "
        "the same bits from run to run and after a resume, not on other layouts\n",
        config.moe.capacity_factor);
  else
    text += "dispatch        dropless: any load fits\n";
  const parallel::ExpertRound round = strategies_of(config).form().expert_round;
  if (round.ranks > 1)
    text += fmt::format("rounds          up to {} rows from one rank to another at once{}\n", round.rows,
                        round.single ? ", enough for any load" : ", more in further rounds");
  return text;
}

}  // namespace hawser::train
