#include "engine/report/traces.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/plan/measured_costs.h"

namespace hawser::train {

void Traces::set(bool on, bool kernels) {
  ranks_.require_training("set_trace");
  progress_.require_no_pending();
  traces_.clear();
  traces_.reserve(static_cast<size_t>(ranks_.here()));
  for (int32_t i = 0; i < ranks_.here(); ++i) {
    Rank& rank = ranks_.at(i);
    rank.executor().set_trace(nullptr);
    if (!on) continue;
    traces_.emplace_back(rank.plans().train, rank.comm(), &rank.outside());
    if (kernels) traces_.back().add_profile(rank.link().device());
    rank.executor().set_trace(&traces_.back());
  }
}

plan::Timeline Traces::timeline(int32_t index) const {
  if (traces_.empty())
    fail(Code::kFailedPrecondition,
         "nothing was traced: switch the trace on (hws_engine_set_trace) and take a step");
  return traces_.at(static_cast<size_t>(index)).timeline();
}

/// Returns the step of all stages together; null if there is one stage, if other processes have ranks, or if
/// the step was discarded.
OrderedJson Traces::pipeline_json(const std::vector<plan::Timeline>& lines) const {
  const std::vector<EnginePlans>& stages = ranks_.stages();
  if (stages.size() == 1 || !ranks_.all_local()) return {};
  std::vector<const plan::Plan*> plans;
  std::vector<std::vector<plan::Timeline>> by_stage(stages.size());
  for (const EnginePlans& stage : stages) plans.push_back(&stage.train);
  for (size_t i = 0; i < lines.size(); ++i) {
    const Rank& rank = ranks_.at(static_cast<int32_t>(i));
    if (lines[i].times.size() < rank.plans().train.instructions.size()) return {};  // the step was discarded
    by_stage[static_cast<size_t>(rank.stage())].push_back(lines[i]);
  }
  const plan::PipelineSummary was = plan::summarise_pipeline(plans, by_stage);
  return {{"seconds", was.makespan},
          {"idle_share", was.idle},
          {"predicted_seconds", plan::predict_step(plans, by_stage).makespan}};
}

std::string Traces::report(TraceForm form) const {
  std::vector<TracedRank> ranks;
  std::vector<plan::Timeline> lines;
  for (int32_t i = 0; i < ranks_.here(); ++i) {
    const Rank& rank = ranks_.at(i);
    lines.push_back(timeline(i));
    TracedRank& traced = ranks.emplace_back();
    traced = {rank.number(), fmt::format("rank {}", rank.number()), &rank.plans().train, lines.back()};
    if (form != TraceForm::kJson) continue;
    traced.lanes = traces_[static_cast<size_t>(i)].lanes();
    traced.kernels = traces_[static_cast<size_t>(i)].profile();
  }
  OrderedJson facts = {{"step", metrics_.last_step()}};
  std::string text;
  if (const OrderedJson pipeline = pipeline_json(lines); !pipeline.is_null()) {
    facts["pipeline"] = pipeline;
    text = fmt::format(
        "pipeline: {:.6f} s, of which ranks were idle {:.1f} %; predicted from its own costs: {:.6f} s\n",
        pipeline.at("seconds").get<double>(), 100 * pipeline.at("idle_share").get<double>(),
        pipeline.at("predicted_seconds").get<double>());
  }
  return trace_report(ranks, form, fmt::format("step {}", metrics_.last_step()), std::move(facts), text);
}

}  // namespace hawser::train
