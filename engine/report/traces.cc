// Formats a traced step for people and for trace viewers (Perfetto, chrome://tracing). The format is Google's
// "Trace Event Format": complete events ("X") in microseconds, one process per rank. Each lane of the plan
// has a thread, and so has each lane of the comm that the plan does not use, such as the lane of saves.
#include "engine/report/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/base/json.h"
#include "engine/plan/measured_costs.h"
#include "engine/report/kernel_calls_report.h"

namespace hawser::train {
namespace {

using plan::Instruction;

constexpr int thread_of(plan::Lane lane) { return static_cast<int>(lane); }
constexpr int kComputeThread = thread_of(plan::Lane::kCompute);
constexpr int kFirstUnplanned = static_cast<int>(plan::kLanes);

std::string label_of(const Instruction& n) {
  std::string text = plan::op_name(n.op);
  if (n.block >= 0) text += fmt::format(" block {}", n.block);
  if (n.bucket >= 0) text += fmt::format(" bucket {}", n.bucket);
  if (n.micro_batch >= 0) text += fmt::format(" mb {}", n.micro_batch);
  return text;
}

/// The first of two overlapped instructions has the times of both.
std::string label(const plan::Plan& plan, size_t index) {
  const Instruction& n = plan.instructions[index];
  return n.overlaps_next ? label_of(n) + " and " + label_of(plan.instructions[index + 1]) : label_of(n);
}

/// The events of one rank; `zero` is the time at which the trace begins, in seconds.
class Events {
 public:
  Events(const plan::Plan& plan, int32_t rank, double zero, OrderedJson* out)
      : plan_(plan), rank_(rank), zero_(zero), out_(*out) {}

  void add(const plan::Timeline& line) {
    name("process_name", kComputeThread, fmt::format("rank {}", rank_));
    for (size_t l = 0; l < plan::kLanes; ++l) {
      const auto lane = static_cast<plan::Lane>(l);
      if (uses(lane)) name("thread_name", thread_of(lane), plan::lane_name(lane));
    }
    for (size_t i = 0; i < line.times.size(); ++i) {
      const plan::Times& t = line.times[i];
      if (!plan_.instructions[i].is_transfer()) event(i, "compute", t.begin, t.end);
      const char* const beside = plan_.instructions[i].on_host() ? "host" : "communication";
      if (t.sent_end > t.sent_begin) event(i, beside, t.sent_begin, t.sent_end);
    }
    for (const plan::Wait& w : line.waits)
      if (w.end > w.begin) event(w.instruction, "wait", w.begin, w.end);
  }

  /// Kernel calls, nested in the instructions that made them.
  void add(const KernelProfile& profile) {
    for (const KernelProfile::Call& c : profile.calls()) {
      OrderedJson args = {{"bytes", c.work.bytes}};
      if (c.work.flops > 0) args["flops"] = c.work.flops;
      push(kernel_label(nn::calls_of(c.work)), "kernel", c.begin, c.end, kComputeThread, std::move(args));
    }
  }

  /// Calls of lanes that the plan does not use.
  void add(const std::vector<StepTrace::LaneCalls>& lanes) {
    int thread = kFirstUnplanned;
    for (const StepTrace::LaneCalls& lane : lanes) {
      if (lane.planned) continue;
      name("thread_name", thread, lane.name);
      for (const comm::Record& call : lane.calls)
        push(comm::operation_name(call.operation), "communication", call.begun, call.ended, thread,
             {{"bytes", call.bytes}});
      ++thread;
    }
  }

 private:
  void name(const char* what, int thread, const std::string& text) {
    out_.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", rank_}, {"tid", thread}, {"args", {{"name", text}}}});
  }

  void event(size_t index, const std::string& category, double begin, double end) {
    const bool past = index >= plan_.instructions.size() || (category == "wait" && index == plan_.commit);
    const bool sends = category == "communication", beside = sends || category == "host";
    std::string text = past ? "end of the half" : label(plan_, index);
    if (category == "wait") text = "wait: " + text;
    OrderedJson args = {{"instruction", index}};
    if (sends) args["bytes"] = plan_.instructions[index].sent_bytes;
    push(text, category, begin, end,
         beside ? thread_of(plan::sending_lane(plan_.instructions[index])) : kComputeThread, std::move(args));
  }

  bool uses(plan::Lane lane) const {
    const auto& all = plan_.instructions;
    return std::any_of(all.begin(), all.end(), [&](const Instruction& n) {
      return n.lane == lane || (plan::starts_with_collective(n) && plan::sending_lane(n) == lane);
    });
  }

  void push(const std::string& text, const std::string& category, double begin, double end, int thread,
            OrderedJson args) {
    out_.push_back({{"name", text},
                    {"cat", category},
                    {"ph", "X"},
                    {"ts", (begin - zero_) * 1e6},
                    {"dur", (end - begin) * 1e6},
                    {"pid", rank_},
                    {"tid", thread},
                    {"args", std::move(args)}});
  }

  const plan::Plan& plan_;
  int32_t rank_;
  double zero_;
  OrderedJson& out_;
};

OrderedJson overlap_json(int32_t rank, const plan::Overlap& o) {
  return {{"rank", rank},
          {"seconds", o.makespan},
          {"compute_seconds", o.compute_busy},
          {"communication_seconds", o.communication_busy},
          {"exposed_seconds", o.exposed},
          {"hidden_share", o.hidden_share()},
          {"exchanging_seconds", o.exchanging},
          {"beside_seconds", o.beside},
          {"behind_backward_share", o.behind_backward_share()}};
}

}  // namespace

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

std::string Traces::report(bool json) const {
  std::vector<plan::Timeline> lines;
  double zero = std::numeric_limits<double>::infinity();
  for (int32_t i = 0; i < ranks_.here(); ++i) {
    lines.push_back(timeline(i));
    if (!lines.back().times.empty()) zero = std::min(zero, lines.back().times.front().ready);
  }
  OrderedJson report = {{"displayTimeUnit", "ms"}, {"otherData", {{"step", metrics_.last_step()}}}};
  std::string text =
      fmt::format("step {}, seconds\n{:>6} {:>10} {:>10} {:>14} {:>10} {:>9} {:>16}\n", metrics_.last_step(),
                  "rank", "step", "compute", "communication", "exposed", "hidden", "behind backward");
  for (size_t i = 0; i < lines.size(); ++i) {
    const int32_t rank = ranks_.at(static_cast<int32_t>(i)).number();
    const plan::Plan& plan = ranks_.at(static_cast<int32_t>(i)).plans().train;
    const plan::Overlap o = plan::overlap_of(plan, lines[i]);
    if (json) {
      Events events(plan, rank, zero, &report["traceEvents"]);
      events.add(lines[i]);
      events.add(traces_[i].lanes());
      if (const KernelProfile* profile = traces_[i].profile()) events.add(*profile);
    }
    report["otherData"]["ranks"].push_back(overlap_json(rank, o));
    text += fmt::format("{:>6} {:>10.6f} {:>10.6f} {:>14.6f} {:>10.6f} {:>7.1f} % {:>14.1f} %\n", rank,
                        o.makespan, o.compute_busy, o.communication_busy, o.exposed, 100 * o.hidden_share(),
                        100 * o.behind_backward_share());
  }
  if (const OrderedJson pipeline = pipeline_json(lines); !pipeline.is_null()) {
    report["otherData"]["pipeline"] = pipeline;
    text += fmt::format(
        "pipeline: {:.6f} s, of which ranks were idle {:.1f} %; predicted from its own costs: {:.6f} s\n",
        pipeline.at("seconds").get<double>(), 100 * pipeline.at("idle_share").get<double>(),
        pipeline.at("predicted_seconds").get<double>());
  }
  if (json) return report.dump();
  return text +
         "(hidden: share of communication beside which something was computed; exposed: what the compute "
         "stream waited)\n";
}

}  // namespace hawser::train
