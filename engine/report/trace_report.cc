#include "engine/report/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "engine/base/json.h"
#include "engine/report/kernel_calls_report.h"
#include "engine/report/trace_picture.h"

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

/// Returns an event's name. Of two overlapped instructions, the event of the first stands for both.
std::string label(const plan::Plan& plan, size_t index) {
  const Instruction& n = plan.instructions[index];
  return n.overlaps_next ? label_of(n) + " and " + label_of(plan.instructions[index + 1]) : label_of(n);
}

/// The events of one rank; `zero` is the time at which the trace begins, in seconds.
class Events {
 public:
  Events(const plan::Plan& plan, int32_t rank, double zero, OrderedJson* out)
      : plan_(plan), rank_(rank), zero_(zero), out_(*out) {}

  void add(const std::string& process, const plan::Timeline& line) {
    name("process_name", kComputeThread, process);
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
    std::string text = past ? "end of the phase" : label(plan_, index);
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

/// The time at which the first rank begins.
double beginning(const std::vector<TracedRank>& ranks) {
  double zero = std::numeric_limits<double>::infinity();
  for (const TracedRank& rank : ranks)
    if (!rank.line.times.empty()) zero = std::min(zero, rank.line.times.front().ready);
  return zero;
}

std::string trace_json(const std::vector<TracedRank>& ranks, OrderedJson facts) {
  OrderedJson report = {{"displayTimeUnit", "ms"}, {"otherData", std::move(facts)}};
  const double zero = beginning(ranks);
  for (const TracedRank& rank : ranks) {
    Events events(*rank.plan, rank.number, zero, &report["traceEvents"]);
    events.add(rank.name, rank.line);
    events.add(rank.lanes);
    if (rank.kernels) events.add(*rank.kernels);
    report["otherData"]["ranks"].push_back(
        overlap_json(rank.number, plan::overlap_of(*rank.plan, rank.line)));
  }
  return report.dump();
}

std::string trace_text(const std::vector<TracedRank>& ranks, const std::string& title,
                       const std::string& last_line) {
  std::string text =
      fmt::format("{}, seconds\n{:>6} {:>10} {:>10} {:>14} {:>10} {:>9} {:>16}\n", title, "rank", "step",
                  "compute", "communication", "exposed", "hidden", "behind backward");
  for (const TracedRank& rank : ranks) {
    const plan::Overlap o = plan::overlap_of(*rank.plan, rank.line);
    text += fmt::format("{:>6} {:>10.6f} {:>10.6f} {:>14.6f} {:>10.6f} {:>7.1f} % {:>14.1f} %\n", rank.number,
                        o.makespan, o.compute_busy, o.communication_busy, o.exposed, 100 * o.hidden_share(),
                        100 * o.behind_backward_share());
  }
  return text + last_line +
         "(hidden: share of communication beside which something was computed; exposed: what the compute "
         "stream waited)\n";
}

}  // namespace

std::string trace_report(const std::vector<TracedRank>& ranks, TraceForm form, const std::string& title,
                         OrderedJson facts, const std::string& last_line) {
  switch (form) {
    case TraceForm::kJson:
      return trace_json(ranks, std::move(facts));
    case TraceForm::kSvg:
      return trace_picture(ranks, title);
    default:
      return trace_text(ranks, title, last_line);
  }
}

}  // namespace hawser::train
