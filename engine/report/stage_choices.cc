#include "engine/report/stage_choices.h"

#include <fmt/format.h>

#include "engine/config/tree.h"

namespace hawser::train {

std::string stages_text(const std::vector<StageChoice>& choices) {
  if (choices.empty()) return "";  // ZeRO stages differ only among data-parallel ranks
  const auto row = [](const auto&... cells) {
    return fmt::format("{} {:>5}  {:<15} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", cells...);
  };
  std::string text = "every stage of this config, per rank (*: this one)\n";
  text += row(" ", "stage", "reduce", "weights", "gradients", "optimizer", "buckets", "peak", "sent/step");
  using plan::Category;
  for (const StageChoice& c : choices)
    text +=
        row(c.chosen ? "*" : " ", c.stage, config::name_at("/zero/reduce", c.reduce),
            plan::bytes_text(c.bytes(Category::kWeights)), plan::bytes_text(c.bytes(Category::kGradients)),
            plan::bytes_text(c.bytes(Category::kOptimizer)), plan::bytes_text(c.bytes(Category::kBuckets)),
            plan::bytes_text(c.peak_bytes), plan::bytes_text(c.sent_bytes));
  return text + "\n";
}

OrderedJson stage_json(const StageChoice& c) {
  OrderedJson memory;
  for (size_t i = 0; i < c.at_peak.size(); ++i)
    memory[plan::category_name(static_cast<plan::Category>(i))] = c.at_peak[i];
  return {{"stage", c.stage},           {"reduce", config::name_at("/zero/reduce", c.reduce)},
          {"chosen", c.chosen},         {"memory", memory},
          {"peak_bytes", c.peak_bytes}, {"sent_bytes", c.sent_bytes}};
}

}  // namespace hawser::train
