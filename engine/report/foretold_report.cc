#include "engine/report/foretold_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/cluster/kernel_seconds.h"
#include "engine/plan/step_work.h"
#include "engine/report/forecast.h"
#include "engine/report/kernel_calls_report.h"
#include "engine/report/pipeline_report.h"
#include "engine/report/ramp_summary.h"

namespace hawser::train {
namespace {

using cluster::ForetoldStep;
using cluster::SentRow;
using cluster::StageTimes;
using parallel::TransferGroup;

/// What the prediction leaves out. Every report lists it.
constexpr const char* kNotModelled[] = {
    "kernels and transfers that slow each other down by sharing processors or memory; the arithmetic of sums "
    "over ranks; work of the host between launches",
    "links that several ranks share, congestion; the latency of a collective is the same for any number of "
    "ranks; the hops of one collective follow each other",
    "differences between the ranks of a stage: all are equally fast, and get equally many rows for their "
    "experts unless an imbalance is given"};

/// How exact the memory of a described GPU is.
constexpr const char* kBounds =
    "workspaces of cuDNN and cuBLASLt are the plan's bounds; memory is exact only for devices of this "
    "machine";

class ForetoldReport {
 public:
  ForetoldReport(const config::ConfigTree& config, std::string_view cluster_text, double tokens,
                 double imbalance)
      : cluster_(cluster::cluster_of(cluster_text)),
        a_(assemble(on_described_device(config, cluster_))),
        forecast_(a_.config, cluster_, imbalance),
        stages_(forecast_.stages()),
        step_(forecast_.step()),
        tokens_(tokens),
        imbalance_(imbalance),
        sent_(forecast_.sent()) {
    if (!(tokens >= 0) || !std::isfinite(tokens))
      fail(Code::kInvalidArgument, "tokens is {}; it must be 0 (none) or the tokens of a run", tokens);
    for (const int64_t m : a_.config.batch.all_micro_batches())
      seconds_[m] = m == a_.config.batch.grad_accum_steps ? step_.seconds : forecast_.seconds_of(m);
  }

  std::string json() const;
  std::string text() const;
  std::string trace(TraceForm form) const;

 private:
  double seconds_of(int64_t micro_batches) const { return seconds_.at(micro_batches); }
  RunLength run() const {
    return run_length(a_.config.batch, tokens_ / static_cast<double>(a_.config.batch.sequence),
                      [this](int64_t micro_batches) { return seconds_of(micro_batches); });
  }
  double steps() const { return run().steps; }
  double days() const { return run().seconds / 86400; }
  double gpu_hours() const { return days() * 24 * static_cast<double>(forecast_.ranks()); }
  OrderedJson stage_json(size_t s) const;
  OrderedJson sent_json() const;
  OrderedJson work_json(const plan::Plan& plan) const;
  OrderedJson foretold_json() const;
  std::string shares_text() const;
  std::string stages_text() const;
  std::string sent_text() const;

  cluster::Cluster cluster_;
  Assembly a_;
  Forecast forecast_;
  const std::vector<EnginePlans>& stages_;
  const ForetoldStep& step_;
  double tokens_, imbalance_;
  std::vector<SentRow> sent_;          // by a rank of the first stage
  std::map<int64_t, double> seconds_;  // of a step, by its micro-batches
};

OrderedJson exposed_json(const StageTimes& times) {
  OrderedJson json = OrderedJson::object();
  for (size_t g = 0; g < parallel::kTransferGroups; ++g)
    if (times.exposed[g] > 0)
      json[parallel::transfer_group_name(static_cast<TransferGroup>(g))] = times.exposed[g];
  return json;
}

OrderedJson times_json(const StageTimes& times) {
  return {{"computing", times.computing},
          {"exposed", exposed_json(times)},
          {"copies", times.copies},
          {"bubble", times.bubble}};
}

/// Returns the bytes of the arena at its peak, by category.
OrderedJson memory_json(const EnginePlans& plans) {
  OrderedJson memory;
  for (size_t c = 0; c < plans.train.at_peak.size(); ++c)
    memory[plan::category_name(static_cast<plan::Category>(c))] = plans.train.at_peak[c];
  return memory;
}

OrderedJson ForetoldReport::stage_json(size_t s) const {
  const EnginePlans& plans = stages_[s];
  return {{"stage", s},
          {"device_bytes", plans.device_bytes()},
          {"free_bytes", cluster_.device.memory_bytes - static_cast<double>(plans.device_bytes())},
          {"memory", memory_json(plans)},
          {"seconds", times_json(step_.stages[s])}};
}

OrderedJson ForetoldReport::sent_json() const {
  OrderedJson list = OrderedJson::array();
  for (const SentRow& row : sent_) {
    OrderedJson bytes;
    for (size_t l = 0; l < cluster_.levels.size(); ++l) bytes[cluster_.levels[l].name] = row.bytes[l];
    list.push_back({{"group", parallel::transfer_group_name(row.group)},
                    {"operation", comm::operation_name(row.operation)},
                    {"hop", parallel::hop_kind_name(row.hop)},
                    {"bytes", std::move(bytes)}});
  }
  return list;
}

/// Returns the work of a step with the seconds of its kernels, without launches, and what bounds them.
OrderedJson ForetoldReport::work_json(const plan::Plan& plan) const {
  OrderedJson list = OrderedJson::array();
  for (const KernelCalls& calls : plan::step_work(plan)) {
    list.push_back(kernel_calls_json(calls));
    list.back()["seconds"] = cluster::seconds_of(cluster_.device, calls, false);
    const cluster::CallSeconds each = cluster::call_seconds(cluster_.device, calls);
    list.back()["bound_by"] = each.arithmetic > each.memory ? "arithmetic" : "memory";
  }
  return list;
}

OrderedJson ForetoldReport::foretold_json() const {
  OrderedJson json = {{"cluster", cluster_.name},
                      {"seconds", step_.seconds},
                      {"tokens_per_second", forecast_.tokens_per_second()},
                      {"mfu", forecast_.mfu()},
                      {"bubble_share", step_.mean().bubble / step_.seconds},
                      {"mean_seconds", times_json(step_.mean())}};
  for (size_t s = 0; s < stages_.size(); ++s) json["stages"].push_back(stage_json(s));
  json["sent"] = sent_json();
  if (tokens_ > 0)
    json["run"] = {{"tokens", tokens_}, {"steps", steps()}, {"days", days()}, {"device_hours", gpu_hours()}};
  if (imbalance_ > 1) json["imbalance"] = imbalance_;
  if (!cluster_.stack.is_hawser()) json["not_hawser"] = cluster_.stack.name;
  for (const char* const line : kNotModelled) json["not_modelled"].push_back(line);
  if (forecast_.device().kind == device::Kind::kCuda) json["bounds"] = kBounds;
  return json;
}

std::string ForetoldReport::json() const {
  const plan::Plan& first = stages_.front().train;
  OrderedJson report = {{"name", first.name},
                        {"device", kind_name(forecast_.device().kind)},
                        {"ranks", forecast_.ranks()},
                        {"memory", memory_json(stages_.front())},
                        {"total_bytes", stages_.front().device_bytes()},
                        {"parameters", forecast_.model().table().count()},
                        {"flops_per_token", forecast_.model().flops_per_token(a_.config.batch.sequence)},
                        {"fits",
                         {{"all_ranks", forecast_.fits()},
                          {"needed_bytes", forecast_.most_bytes()},
                          {"available_bytes", cluster_.device.memory_bytes}}},
                        {"foretold", foretold_json()}};
  const auto seconds = [this](int64_t micro_batches) { return seconds_of(micro_batches); };
  if (OrderedJson ramp = ramp_json(a_.config.batch, stages_, seconds); !ramp.is_null())
    report["ramp"] = std::move(ramp);
  report["work"] = work_json(first);
  if (stages_.size() > 1) report["pipeline"] = pipeline_json(stages_);
  return report.dump();
}

/// "computing 80.1 %, bubble 5.0 %, ...", the mean of all stages.
std::string ForetoldReport::shares_text() const {
  const StageTimes mean = step_.mean();
  const auto share = [&](double seconds) { return 100 * seconds / step_.seconds; };
  std::string text =
      fmt::format("computing {:.1f} %, bubble {:.1f} %", share(mean.computing), share(mean.bubble));
  for (size_t g = 0; g < parallel::kTransferGroups; ++g)
    if (mean.exposed[g] > 0)
      text += fmt::format(", {} {:.1f} %", parallel::transfer_group_name(static_cast<TransferGroup>(g)),
                          share(mean.exposed[g]));
  if (mean.copies > 0) text += fmt::format(", copies {:.1f} %", share(mean.copies));
  return text;
}

std::string ForetoldReport::stages_text() const {
  std::string text = fmt::format("{:>7} {:>12} {:>12} {:>12} {:>12} {:>12}\n", "stage", "bytes", "free",
                                 "computing s", "exposed s", "bubble s");
  for (size_t s = 0; s < stages_.size(); ++s) {
    const StageTimes& t = step_.stages[s];
    const int64_t bytes = stages_[s].device_bytes();
    const double free = cluster_.device.memory_bytes - static_cast<double>(bytes);
    text += fmt::format("{:>7} {:>12} {:>12} {:>12.4f} {:>12.4f} {:>12.4f}\n", s, plan::bytes_text(bytes),
                        free >= 0 ? plan::bytes_text(static_cast<int64_t>(free)) : "none", t.computing,
                        t.exposed_in_all() + t.copies, t.bubble);
  }
  if (!forecast_.fits())
    text += fmt::format("it does not fit: a rank needs {}, but has {}\n",
                        plan::bytes_text(forecast_.most_bytes()),
                        plan::bytes_text(static_cast<int64_t>(cluster_.device.memory_bytes)));
  return text + "\n";
}

std::string ForetoldReport::sent_text() const {
  if (sent_.empty()) return "";
  std::string text =
      fmt::format("sent by a rank{}, in GB\n  {:<12} {:<16} {:<8}",
                  stages_.size() > 1 ? " of the first stage" : "", "group", "operation", "hop");
  for (const cluster::NetworkLevel& level : cluster_.levels) text += fmt::format(" {:>12}", level.name);
  text += "\n";
  for (const SentRow& row : sent_) {
    text += fmt::format("  {:<12} {:<16} {:<8}", parallel::transfer_group_name(row.group),
                        comm::operation_name(row.operation), parallel::hop_kind_name(row.hop));
    for (size_t l = 0; l < cluster_.levels.size(); ++l)
      text += fmt::format(" {:>12.6f}", 1e-9 * static_cast<double>(row.bytes[l]));
    text += "\n";
  }
  return text + "\n";
}

std::string ForetoldReport::text() const {
  std::string text = forecast_.ranks() == 1 ? fmt::format("1 rank of {}\n\n", cluster_.name)
                                            : fmt::format("{} ranks ({}) of {}\n\n", forecast_.ranks(),
                                                          degrees_text(a_.config.mesh), cluster_.name);
  text += fmt::format("a step     {:.4f} s, {:.0f} tokens/s, MFU {:.1f} %\nshares     {}\n", step_.seconds,
                      forecast_.tokens_per_second(), 100 * forecast_.mfu(), shares_text());
  if (!cluster_.stack.is_hawser())
    text +=
        fmt::format("not Hawser: predicted from Hawser's plan with the costs of {}\n", cluster_.stack.name);
  if (tokens_ > 0)
    text += fmt::format("a run      {:.4g} tokens: {:.0f} steps, {:.2f} days, {:.0f} {}-hours\n", tokens_,
                        steps(), days(), gpu_hours(),
                        forecast_.device().kind == device::Kind::kCuda ? "GPU" : "rank");
  if (imbalance_ > 1)
    text += fmt::format("imbalance  the busiest rank's experts get {:g} times the mean; this is its step\n",
                        imbalance_);
  text += ramp_text(a_.config.batch, stages_, [this](int64_t m) { return seconds_of(m); });
  text += "\n" + stages_text() + sent_text();
  if (stages_.size() > 1) text += pipeline_text(stages_) + "The rest describes the first stage.\n\n";
  text += plan::format_memory(stages_.front().train) + "\n";
  text += work_text(plan::step_work(stages_.front().train)) + "\n";
  for (const char* const line : kNotModelled) text += fmt::format("not modelled: {}\n", line);
  if (forecast_.device().kind == device::Kind::kCuda) text += fmt::format("memory: {}\n", kBounds);
  return text;
}

std::string ForetoldReport::trace(TraceForm form) const {
  std::vector<TracedRank> ranks;
  for (size_t s = 0; s < stages_.size(); ++s) {
    const int64_t first = forecast_.first_of_stage(s);
    ranks.push_back(
        {static_cast<int32_t>(first),
         stages_.size() > 1 ? fmt::format("rank {} (stage {})", first, s) : fmt::format("rank {}", first),
         &stages_[s].train, step_.lines[s]});
  }
  const OrderedJson facts = {{"cluster", cluster_.name}, {"predicted", true}, {"seconds", step_.seconds}};
  return trace_report(ranks, form,
                      fmt::format("a predicted step of {} rank{} of {}: {:.4f} s", forecast_.ranks(),
                                  forecast_.ranks() == 1 ? "" : "s", cluster_.name, step_.seconds),
                      facts);
}

}  // namespace

PlanTexts foretold_plan(const config::ConfigTree& config, std::string_view cluster, double tokens,
                        double imbalance) {
  const auto report = std::make_shared<const ForetoldReport>(config, cluster, tokens, imbalance);
  return {report->text(), report->json(), [report](TraceForm form) { return report->trace(form); }};
}

}  // namespace hawser::train
