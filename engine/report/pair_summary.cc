#include "engine/report/pair_summary.h"

#include <fmt/format.h>

namespace hawser::train {

std::string pair_summary(const config::ResolvedConfig& config, const std::vector<EnginePlans>& stages) {
  if (!config.objective.weighs_targets()) return "";
  double extra = 0, all = 0;
  for (const EnginePlans& plans : stages)
    for (const plan::Instruction& n : plans.train.instructions) {
      all += n.flops;
      if (n.op == plan::Op::kLogprobs) extra += n.flops;
    }
  return fmt::format(
      "objective       {:>14} pairs a step: LOGPROBS before each LOSS takes {:.1f} % of the step's "
      "operations{}{}\n",
      config.batch.global_batch / config.objective.rows_per_example(), all > 0 ? 100 * extra / all : 0.0,
      !config.objective.has_reference() ? ""
      : config.data.format == config::DataFormat::kNone
          ? "; log-probabilities of the reference come with the batch"
          : "; those of the reference are computed once, by a forward of each row when the engine is "
            "created",
      config.objective.reference.empty() || config.data.format == config::DataFormat::kNone
          ? ""
          : ", with the model of /objective/reference in memory before this plan's, not beside it");
}

}  // namespace hawser::train
