#include "engine/report/pipeline_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/json.h"
#include "engine/plan/measured_costs.h"

namespace hawser::train {
namespace {

/// The largest number of columns that the diagram shows.
constexpr size_t kMostColumns = 100;

int64_t sent_bytes(const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const plan::Instruction& n : plan.instructions) bytes += n.sent_bytes;
  return bytes;
}

/// "embedding, 1-3, 7-9, head"
std::string blocks_text(const EnginePlans& plans, int32_t head) {
  std::string text;
  const auto add = [&](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  for (const plan::ModelChunk& chunk : plans.stage.chunks) {
    if (chunk.has(0)) add("embedding");
    const int32_t first = std::max(chunk.begin, 1), last = std::min(chunk.end, head) - 1;
    add(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
    if (chunk.has(head)) add("head");
  }
  return text;
}

/// The simulator's prediction of a step in which every FLOP takes equally long and messages take no time.
class FlopsForecast {
 public:
  explicit FlopsForecast(const std::vector<EnginePlans>& stages) {
    std::vector<std::vector<plan::CostTable>> costs;
    for (const EnginePlans& stage : stages) {
      plans_.push_back(&stage.train);
      plan::CostTable& c = costs.emplace_back(1).front();
      c.seconds_per_flop = 1, c.bytes_per_second = 1e300;
      c.transfer_seconds.resize(stage.train.instructions.size());
    }
    lines_ = simulate(plans_, costs);
    ramp_ = summarise_pipeline(plans_, lines_);
    for (const plan::Instruction& n : plans_.front()->instructions)
      if (n.op == plan::Op::kForward && n.block > 0)
        column_ = column_ > 0 ? std::min(column_, n.flops) : n.flops;
    column_ *= static_cast<double>(blocks_of_chunk(stages.front()));
  }

  double idle() const { return ramp_.idle; }
  double idle(size_t stage) const {
    const double busy = plan::overlap_of(*plans_[stage], lines_[stage].front()).compute_busy;
    return ramp_.makespan > 0 ? 1 - busy / ramp_.makespan : 0;
  }
  /// The row of a stage in the diagram. Each column is the time of one chunk's forward.
  std::string row(size_t stage) const {
    if (!(column_ > 0)) return "";
    const auto columns = static_cast<size_t>(std::ceil(ramp_.makespan / column_));
    std::string row(std::min(columns, kMostColumns), '.');
    const std::vector<plan::Times>& times = lines_[stage].front().times;
    for (size_t i = 0; i < times.size(); ++i) {
      const plan::Instruction& n = plans_[stage]->instructions[i];
      if (n.is_transfer() || n.micro_batch < 0 || !(times[i].end > times[i].begin)) continue;
      // A column shows the instruction that runs at its middle.
      const auto begin = static_cast<size_t>(std::ceil(std::max(0.0, times[i].begin / column_ - 0.5)));
      for (size_t c = begin; c < row.size() && (static_cast<double>(c) + 0.5) * column_ < times[i].end; ++c)
        row[c] = static_cast<char>(first_of(n.op) + n.micro_batch % 10);
    }
    return columns > kMostColumns ? row + " ..." : row;
  }

 private:
  static char first_of(plan::Op op) {
    if (op == plan::Op::kBackwardWeight) return 'A';
    return plan::traits_of(op).backward || op == plan::Op::kRecompute ? 'a' : '0';
  }
  static int32_t blocks_of_chunk(const EnginePlans& stage) {
    int32_t least = stage.stage.chunks.front().end;
    for (const plan::ModelChunk& chunk : stage.stage.chunks)
      least = std::min(least, chunk.end - std::max(chunk.begin, 1));
    return std::max(least, 1);
  }

  std::vector<const plan::Plan*> plans_;
  std::vector<std::vector<plan::Timeline>> lines_;
  plan::PipelineSummary ramp_;
  double column_ = 0;
};

int32_t head_of(const std::vector<EnginePlans>& stages) {
  return static_cast<int32_t>(stages.front().strategy.stage_of.size()) - 1;
}

}  // namespace

std::string pipeline_text(const std::vector<EnginePlans>& stages) {
  const FlopsForecast forecast(stages);
  std::string text = fmt::format("{:>5}  {:<28} {:>12} {:>12}\n", "stage", "blocks", "peak", "sent/step");
  for (size_t s = 0; s < stages.size(); ++s)
    text += fmt::format("{:>5}  {:<28} {:>12} {:>12}\n", s, blocks_text(stages[s], head_of(stages)),
                        plan::bytes_text(stages[s].train.peak_bytes),
                        plan::bytes_text(sent_bytes(stages[s].train)));
  text += fmt::format(
      "\na step by FLOPs, with messages that take no time: {:.1f} % of it are waits (the ramp, and stages "
      "that take "
      "longer)\n",
      100 * forecast.idle());
  for (size_t s = 0; s < stages.size(); ++s) text += fmt::format("{:>5}  {}\n", s, forecast.row(s));
  return text +
         "(digits: forward, letters: backward, capitals: its weight half, of the micro-batch modulo ten; "
         "points: waits)\n\n";
}

OrderedJson pipeline_json(const std::vector<EnginePlans>& stages) {
  const FlopsForecast forecast(stages);
  OrderedJson json = OrderedJson::array();
  for (size_t s = 0; s < stages.size(); ++s)
    json.push_back({{"stage", s},
                    {"blocks", blocks_text(stages[s], head_of(stages))},
                    {"peak_bytes", stages[s].train.peak_bytes},
                    {"host_staging_bytes", stages[s].pinned.bytes()},
                    {"sent_bytes", sent_bytes(stages[s].train)},
                    {"idle_share", forecast.idle(s)}});
  return json;
}

}  // namespace hawser::train
