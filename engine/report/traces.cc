#include "engine/report/traces.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/plan/measured_costs.h"

namespace hawser::train {

void Traces::set(bool on, bool kernels) {
  ranks_.require_training("set_trace");
  progress_.require_no_pending();
  for (int32_t i = 0; i < ranks_.here(); ++i) ranks_.at(i).executor().set_trace(nullptr);
  traces_.clear();
  if (!on) return;
  for (const int64_t micro_batches : ranks_.config().batch.all_micro_batches()) {
    std::vector<StepTrace>& traces = traces_[micro_batches];
    traces.reserve(static_cast<size_t>(ranks_.here()));
    for (int32_t i = 0; i < ranks_.here(); ++i) {
      Rank& rank = ranks_.at(i);
      traces.emplace_back(rank.plans().train_of(micro_batches), rank.comm(), &rank.outside());
      if (kernels) traces.back().add_profile(rank.link().device());
    }
  }
  select(ranks_.config().batch.rows_after(progress_.state.samples));
}

void Traces::select(int64_t rows) {
  if (traces_.empty()) return;
  rows_ = rows;
  std::vector<StepTrace>& traces = traces_.at(ranks_.config().batch.micro_batches(rows));
  for (int32_t i = 0; i < ranks_.here(); ++i)
    ranks_.at(i).executor().set_trace(&traces[static_cast<size_t>(i)]);
}

const StepTrace& Traces::trace(int32_t index) const {
  return traces_.at(ranks_.config().batch.micro_batches(rows_)).at(static_cast<size_t>(index));
}

plan::Timeline Traces::timeline(int32_t index) const {
  if (traces_.empty())
    fail(Code::kFailedPrecondition,
         "nothing was traced: switch the trace on (hws_engine_set_trace) and take a step");
  return trace(index).timeline();
}

/// Returns the step of all stages together; null if there is one stage, if other processes have ranks, or if
/// the step was discarded.
OrderedJson Traces::pipeline_json(const std::vector<plan::Timeline>& lines) const {
  const std::vector<EnginePlans>& stages = ranks_.stages();
  if (stages.size() == 1 || !ranks_.all_local()) return {};
  std::vector<const plan::Plan*> plans;
  std::vector<std::vector<plan::Timeline>> by_stage(stages.size());
  const int64_t micro_batches = ranks_.config().batch.micro_batches(rows_);
  for (const EnginePlans& stage : stages) plans.push_back(&stage.train_of(micro_batches));
  for (size_t i = 0; i < lines.size(); ++i) {
    const Rank& rank = ranks_.at(static_cast<int32_t>(i));
    if (lines[i].times.size() < rank.train_plan(rows_).instructions.size())
      return {};  // the step was discarded
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
    traced = {rank.number(), fmt::format("rank {}", rank.number()), &rank.train_plan(rows_), lines.back()};
    if (form != TraceForm::kJson) continue;
    traced.lanes = trace(i).lanes();
    traced.kernels = trace(i).profile();
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
