#include "engine/train/report/pipeline_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace hawser::train {
namespace {

/// Columns of the picture that are shown.
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

/// Plays the actions of all stages through, as if messages took no time.
class Picture {
 public:
  explicit Picture(const std::vector<EnginePlans>& stages)
      : stages_(stages), rows_(stages.size()), next_(stages.size()) {
    for (bool moves = true; moves;) {
      moves = false;
      for (size_t s = 0; s < stages.size(); ++s)
        while (next_[s] < stages[s].stage.actions.size() && draw(s, stages[s].stage.actions[next_[s]]))
          ++next_[s], moves = true;
    }
  }

  size_t columns() const {
    size_t most = 0;
    for (const std::string& row : rows_) most = std::max(most, row.size());
    return most;
  }
  std::string row(size_t stage) const {
    std::string row = rows_[stage];
    row.resize(columns(), '.');
    if (row.size() > kMostColumns) row = row.substr(0, kMostColumns) + " ...";
    return row;
  }
  double idle() const {
    double waits = 0;
    for (size_t s = 0; s < rows_.size(); ++s)
      waits += static_cast<double>(std::count(rows_[s].begin(), rows_[s].end(), '.') +
                                   static_cast<std::ptrdiff_t>(columns() - rows_[s].size()));
    return waits / static_cast<double>(columns() * rows_.size());
  }

 private:
  /// When what a chunk needs for a micro-batch was there; keyed by the border above or below it, in blocks.
  using Done = std::map<std::pair<int32_t, int32_t>, size_t>;

  bool draw(size_t s, const plan::Action& a) {
    const plan::ModelChunk& chunk = stages_[s].stage.chunks[static_cast<size_t>(a.chunk)];
    const bool forward = a.part == plan::Part::kForward;
    const bool given =
        forward ? chunk.below == plan::Neighbour::kNone : chunk.above == plan::Neighbour::kNone;
    Done& done = forward ? forward_ : backward_;
    size_t from = rows_[s].size();
    if (!given) {
      const auto found = done.find({forward ? chunk.begin : chunk.end, a.micro_batch});
      if (found == done.end()) return false;
      from = std::max(from, found->second);
    }
    rows_[s].resize(from, '.');
    rows_[s].append(forward ? 1 : 2, static_cast<char>((forward ? '0' : 'a') + a.micro_batch % 10));
    done[{forward ? chunk.end : chunk.begin, a.micro_batch}] = rows_[s].size();
    return true;
  }

  const std::vector<EnginePlans>& stages_;
  std::vector<std::string> rows_;
  std::vector<size_t> next_;
  Done forward_, backward_;
};

int32_t head_of(const std::vector<EnginePlans>& stages) {
  return static_cast<int32_t>(stages.front().strategy.stage_of.size()) - 1;
}

}  // namespace

std::string pipeline_text(const std::vector<EnginePlans>& stages) {
  const Picture picture(stages);
  std::string text = fmt::format("{:>5}  {:<28} {:>12} {:>12}\n", "stage", "blocks", "peak", "sent/step");
  for (size_t s = 0; s < stages.size(); ++s)
    text += fmt::format("{:>5}  {:<28} {:>12} {:>12}\n", s, blocks_text(stages[s], head_of(stages)),
                        plan::bytes_text(stages[s].train.peak_bytes),
                        plan::bytes_text(sent_bytes(stages[s].train)));
  text += fmt::format(
      "\na step, if a backward takes two forwards and messages no time: {:.0f} % of it are waits\n",
      100 * picture.idle());
  for (size_t s = 0; s < stages.size(); ++s) text += fmt::format("{:>5}  {}\n", s, picture.row(s));
  return text + "(digits: forward, letters: backward, of the micro-batch modulo ten; points: waits)\n\n";
}

OrderedJson pipeline_json(const std::vector<EnginePlans>& stages) {
  OrderedJson json = OrderedJson::array();
  for (size_t s = 0; s < stages.size(); ++s)
    json.push_back({{"stage", s},
                    {"blocks", blocks_text(stages[s], head_of(stages))},
                    {"peak_bytes", stages[s].train.peak_bytes},
                    {"host_staging_bytes", stages[s].pinned.bytes()},
                    {"sent_bytes", sent_bytes(stages[s].train)}});
  return json;
}

}  // namespace hawser::train
