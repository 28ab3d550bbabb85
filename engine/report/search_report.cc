#include "engine/report/search_report.h"

#include <fmt/format.h>

#include "engine/base/json.h"
#include "engine/report/layout_search.h"

namespace hawser::train {
namespace {

using parallel::TransferGroup;

/// The fields of a layout as a config: {"mesh": {"pp": 2}, ...}.
OrderedJson fields_json(const FoundLayout& layout) {
  OrderedJson fields = OrderedJson::object();
  for (const config::Setting& s : layout.settings)
    fields[OrderedJson::json_pointer(s.pointer)] = parse_json<OrderedJson>(s.value);
  return fields;
}

OrderedJson layout_json(const FoundLayout& layout, const cluster::Cluster& cluster) {
  OrderedJson exposed = OrderedJson::object(), memory;
  for (size_t g = 0; g < parallel::kTransferGroups; ++g)
    if (layout.mean.exposed[g] > 0)
      exposed[parallel::transfer_group_name(static_cast<TransferGroup>(g))] = layout.mean.exposed[g];
  for (size_t c = 0; c < layout.memory.size(); ++c)
    memory[plan::category_name(static_cast<plan::Category>(c))] = layout.memory[c];
  return {{"fields", fields_json(layout)},
          {"seconds", layout.seconds},
          {"tokens_per_second", layout.tokens_per_second},
          {"mfu", layout.mfu},
          {"bubble_share", layout.mean.bubble / layout.seconds},
          {"exposed_seconds", std::move(exposed)},
          {"fullest_stage",
           {{"stage", layout.fullest},
            {"device_bytes", layout.bytes},
            {"free_bytes", cluster.device.memory_bytes - static_cast<double>(layout.bytes)},
            {"memory", std::move(memory)}}}};
}

OrderedJson reason_json(const FieldReason& reason) {
  OrderedJson others = OrderedJson::array();
  for (const OtherValue& other : reason.others) {
    OrderedJson entry = {{"value", other.value}};
    using enum OtherValue::Outcome;
    if (other.outcome == kPredicted) entry["seconds"] = other.seconds;
    if (other.outcome == kAtLeast) entry["least_seconds"] = other.seconds;
    if (other.outcome == kDoesNotFit) entry["fits"] = false;
    if (!other.note.empty()) entry["note"] = other.note;
    others.push_back(std::move(entry));
  }
  return {{"field", reason.field}, {"value", reason.value}, {"others", std::move(others)}};
}

std::string json(const SearchResult& result, const cluster::Cluster& cluster) {
  OrderedJson layouts = OrderedJson::array(), reasons = OrderedJson::object();
  for (const FoundLayout& layout : result.layouts) layouts.push_back(layout_json(layout, cluster));
  for (const auto& [why, count] : result.does_not_fit) reasons[why] = count;
  OrderedJson fits_with = OrderedJson::object(), why = OrderedJson::array();
  for (const auto& [what, count] : result.fits_with) fits_with[what] = count;
  for (const FieldReason& reason : result.reasons) why.push_back(reason_json(reason));
  const OrderedJson report = {{"cluster", cluster.name},
                              {"ranks", result.ranks},
                              {"global_batch", result.global_batch},
                              {"layouts", std::move(layouts)},
                              {"why", std::move(why)},
                              {"considered", result.considered},
                              {"refused", result.refused},
                              {"does_not_fit", std::move(reasons)},
                              {"fits_with", std::move(fits_with)},
                              {"slower", result.slower},
                              {"forecasts", result.forecasts},
                              {"varied", result.varied},
                              {"not_tried", result.not_tried},
                              {"not_tried_seconds", result.not_tried_seconds}};
  return report.dump();
}

std::string others_text(const SearchResult& result) {
  int64_t all = 0;
  std::string by;
  for (const auto& [why, count] : result.does_not_fit) {
    by += fmt::format("{}{} for {}", by.empty() ? "" : ", ", count, why);
    all += count;
  }
  std::string text = fmt::format("{} layouts were considered\n", result.considered);
  for (const auto& [what, count] : result.fits_with) by += fmt::format("; {} would fit with {}", what, count);
  if (all > 0) text += fmt::format("  {} do not fit: {}\n", all, by);
  if (result.refused > 0) text += fmt::format("  {} are refused by the rules of configs\n", result.refused);
  if (result.slower > 0)
    text += fmt::format("  {} cannot be faster than the last above: their kernels and updates take longer\n",
                        result.slower);
  if (result.not_tried > 0)
    text += fmt::format(
        "  {} seemed slower and were not simulated, because the number and size of simulations are "
        "limited; none takes "
        "less than {:.4f} s\n",
        result.not_tried, result.not_tried_seconds);
  text += fmt::format("  {} were planned and predicted\n", result.forecasts);
  if (result.varied > 0)
    text += fmt::format(
        "  of these, {} are variants of the fastest layouts, or of faster ones that do not fit. They differ "
        "in "
        "/zero/reduce, prefetch or reshard_after_forward, /recompute, /offload or /pipeline/layers. Other "
        "combinations were not tried\n",
        result.varied);
  return text;
}

std::string cost_text(const OtherValue& other, double best) {
  using enum OtherValue::Outcome;
  if (other.outcome == kDoesNotFit) return "does not fit";
  if (other.outcome == kAtLeast && other.seconds < best) return "was not simulated";
  return fmt::format("{}{:+.1f} %", other.outcome == kAtLeast ? "at least " : "",
                     100 * (other.seconds / best - 1));
}

/// "/mesh/tp 8: 4 does not fit (activations); 16 at least +31.0 % (leaves the node)"
std::string reasons_text(const SearchResult& result) {
  if (result.reasons.empty()) return "";
  std::string text =
      "why: the fastest layout with another value of each field, and how much longer its step takes\n";
  const double best = result.layouts.front().seconds;
  for (const FieldReason& reason : result.reasons) {
    text += fmt::format("  {} {}:", reason.field, reason.value);
    for (size_t i = 0; i < reason.others.size(); ++i) {
      const OtherValue& other = reason.others[i];
      text += fmt::format("{} {} {}", i > 0 ? ";" : "", other.value, cost_text(other, best));
      if (!other.note.empty()) text += fmt::format(" ({})", other.note);
    }
    text += "\n";
  }
  return text + "\n";
}

std::string text(const SearchResult& result, const cluster::Cluster& cluster) {
  std::string text =
      fmt::format("{} ranks of {}, global batch {}\n\n{:>3} {:>12} {:>12} {:>7} {:>8} {:>9} {:>12} {:>12}\n",
                  result.ranks, cluster.name, result.global_batch, "", "seconds", "tokens/s", "MFU", "bubble",
                  "exposed", "bytes", "free");
  int64_t number = 0;
  for (const FoundLayout& l : result.layouts)
    text += fmt::format(
        "{:>3} {:>12.4f} {:>12.0f} {:>5.1f} % {:>6.1f} % {:>7.1f} % {:>12} {:>12}\n    {}\n", ++number,
        l.seconds, l.tokens_per_second, 100 * l.mfu, 100 * l.mean.bubble / l.seconds,
        100 * (l.mean.exposed_in_all() + l.mean.copies) / l.seconds, plan::bytes_text(l.bytes),
        plan::bytes_text(static_cast<int64_t>(cluster.device.memory_bytes) - l.bytes), fields_json(l).dump());
  return text + "\n" + reasons_text(result) + others_text(result);
}

}  // namespace

PlanTexts searched_plan(const config::ConfigTree& config, std::string_view cluster, int64_t ranks,
                        int64_t top, double imbalance) {
  const cluster::Cluster on = cluster::cluster_of(cluster);
  const SearchResult result =
      search_layouts(config, on, {.ranks = ranks, .top = top, .imbalance = imbalance});
  return {text(result, on), json(result, on)};
}

}  // namespace hawser::train
