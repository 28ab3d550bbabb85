// Plan printer: writes plans as text and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/json.h"
#include "engine/plan/plan.h"

namespace hawser::plan {
namespace {

std::string operands(const Plan& plan, const std::vector<SlotId>& ids) {
  std::string text;
  for (SlotId id : ids) {
    if (!text.empty()) text += ", ";
    text += plan.slots[static_cast<size_t>(id)].name;
  }
  return text;
}

bool of_many_ranks(const Plan& plan) {
  return std::any_of(plan.instructions.begin(), plan.instructions.end(),
                     [](const Instruction& n) { return n.sent_bytes > 0; });
}

OrderedJson exchanges_json(const Instruction& n) {
  OrderedJson json = OrderedJson::array();
  for (const ExchangeNote& note : n.exchanges)
    json.push_back({{"group", note.group},
                    {"operation", note.operation},
                    {"bytes", note.bytes},
                    {"flops", note.flops},
                    {"beside", note.beside},
                    {"hiding_flops", note.hiding_flops}});
  return json;
}

/// Lists the transfers that the instruction waits for, at most one in each lane.
std::string waits_text(const LaneMarks& waits) {
  std::string text;
  for (size_t lane = 0; lane < kLanes; ++lane)
    if (const int32_t at = waits[static_cast<Lane>(lane)]; at >= 0)
      text += fmt::format("{}{}", text.empty() ? "" : "+", at);
  return text.empty() ? "-" : text;
}

/// Returns -1, one instruction, or a list if the instruction waits for several lanes.
OrderedJson waits_json(const LaneMarks& waits) {
  OrderedJson all = OrderedJson::array();
  for (size_t lane = 0; lane < kLanes; ++lane)
    if (const int32_t at = waits[static_cast<Lane>(lane)]; at >= 0) all.push_back(at);
  return all.size() > 1 ? all : OrderedJson(waits.newest());
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  const double b = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", b / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.2f} MiB", b / (1 << 20));
  return fmt::format("{:.1f} KiB", b / 1024);
}

const char* category_name(Category category) {
  constexpr const char* kNames[] = {"weights", "gradients", "optimizer", "activations",
                                    "buckets", "workspace", "staging",   "tables"};
  return kNames[static_cast<size_t>(category)];
}

std::string format_instructions(const Plan& plan) {
  const bool ranks = of_many_ranks(plan);
  std::string text = fmt::format("plan {}{}: {} instructions\n{:>5}  {:<16} {:>5} {:>4} {:>9}  ", plan.name,
                                 ranks ? " of each rank" : "", plan.instructions.size(), "#", "instruction",
                                 "block", "mb", "GFLOP");
  if (ranks) text += fmt::format("{:>6} {:>11} {:>6}  ", "bucket", "bytes sent", "waits");
  text += "reads -> writes\n";
  const auto number = [](int64_t v) { return v < 0 ? std::string("-") : fmt::format("{}", v); };
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    if (i == plan.commit && i > 0) text += "       ---- durable from here ----\n";
    text += fmt::format("{:>5}{} {:<16} {:>5} {:>4} {:>9.3f}  ", i,
                        n.on_host()       ? '^'
                        : n.is_transfer() ? '~'
                        : n.overlaps_next ? '&'
                                          : ' ',
                        std::string(op_name(n.op)) + (n.experts ? ".experts" : ""), number(n.block),
                        number(n.micro_batch), n.flops * 1e-9);
    if (ranks)
      text += fmt::format("{:>6} {:>11} {:>6}  ", number(n.bucket),
                          number(n.sent_bytes > 0 ? n.sent_bytes : -1), waits_text(n.waits_for));
    text += fmt::format("{} -> {}\n", operands(plan, n.reads()), operands(plan, n.writes()));
  }
  if (ranks)
    text += "(~: on the communication stream, beside what computes; waits: the transfer that must be done)\n";
  if (std::any_of(plan.instructions.begin(), plan.instructions.end(),
                  [](const Instruction& n) { return n.on_host(); }))
    text += "(^: on the host's processor)\n";
  if (std::any_of(plan.instructions.begin(), plan.instructions.end(),
                  [](const Instruction& n) { return n.overlaps_next; }))
    text += "(&: takes turns with the next: one computes while exchanges of the other are carried)\n";
  return text;
}

std::string format_memory(const Plan& plan) {
  std::string text =
      fmt::format("memory of plan {} at its peak{}\n", plan.name, of_many_ranks(plan) ? ", per rank" : "");
  for (size_t c = 0; c < plan.at_peak.size(); ++c)
    if (plan.at_peak[c] > 0)
      text += fmt::format("  {:<12} {:>14} bytes  {}\n", category_name(static_cast<Category>(c)),
                          plan.at_peak[c], bytes_text(plan.at_peak[c]));
  const int64_t live = std::accumulate(plan.at_peak.begin(), plan.at_peak.end(), int64_t{0});
  text += fmt::format("  {:<12} {:>14} bytes  {}\n", "gaps", plan.peak_bytes - live,
                      bytes_text(plan.peak_bytes - live));
  text += fmt::format("  {:<12} {:>14} bytes  {}\n", "total", plan.peak_bytes, bytes_text(plan.peak_bytes));
  return text;
}

std::string plan_json(const Plan& plan) {
  OrderedJson json;
  json["name"] = plan.name;
  json["peak_bytes"] = plan.peak_bytes;
  json["persistent_bytes"] = plan.persistent_bytes;
  for (size_t c = 0; c < plan.at_peak.size(); ++c)
    json["memory"][category_name(static_cast<Category>(c))] = plan.at_peak[c];
  for (const Slot& s : plan.slots)
    json["slots"].push_back({{"name", s.name},
                             {"category", category_name(s.category)},
                             {"bytes", s.bytes},
                             {"first", s.first},
                             {"last", s.last},
                             {"offset", s.offset},
                             {"persistent", s.persistent}});
  json["commit"] = plan.commit;
  for (const Instruction& n : plan.instructions) {
    json["instructions"].push_back({{"op", op_name(n.op)},
                                    {"block", n.block},
                                    {"micro_batch", n.micro_batch},
                                    {"reads", n.reads()},
                                    {"writes", n.writes()},
                                    {"scratch", n.scratch},
                                    {"bucket", n.bucket},
                                    {"stream", lane_name(n.lane)},
                                    {"accumulate", n.accumulate},
                                    {"sent_bytes", n.sent_bytes},
                                    {"exchanges", exchanges_json(n)},
                                    {"waits_for", waits_json(n.waits_for)},
                                    {"flops", n.flops}});
    if (n.experts) json["instructions"].back()["experts"] = true;
    if (n.overlaps_next) json["instructions"].back()["paired"] = true;
  }
  return json.dump();
}

}  // namespace hawser::plan
