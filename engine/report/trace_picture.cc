#include "engine/report/trace_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

namespace hawser::train {
namespace {

using plan::Instruction;
using plan::Op;

/// What a lane can do at a time. Each kind has a colour.
enum class Kind : uint8_t {
  kIdle,
  kForward,
  kLoss,
  kBackward,
  kWeightHalf,
  kRecompute,
  kUpdate,
  kTransfer,
  kCopy,
  kCount
};

struct KindRow {
  Kind kind;
  const char *name, *colour;
};
constexpr KindRow kKinds[] = {{Kind::kIdle, "waits", "#eceff1"},
                              {Kind::kForward, "forward", "#1e88e5"},
                              {Kind::kLoss, "head and loss", "#5e35b1"},
                              {Kind::kBackward, "backward", "#43a047"},
                              {Kind::kWeightHalf, "backward, weight pass", "#9ccc65"},
                              {Kind::kRecompute, "recompute", "#80d8ff"},
                              {Kind::kUpdate, "gradients and update", "#fdd835"},
                              {Kind::kTransfer, "communication", "#e53935"},
                              {Kind::kCopy, "host and disk copies", "#8d6e63"}};
constexpr size_t kAllKinds = std::size(kKinds);
static_assert(kAllKinds == static_cast<size_t>(Kind::kCount));

Kind kind_of(const Instruction& n) {
  if (plan::is_own(n.lane)) return Kind::kCopy;
  if (n.is_transfer()) return Kind::kTransfer;
  switch (n.op) {
    case Op::kLoss:
    case Op::kEvalLoss:
    case Op::kLogits:
    case Op::kLogprobs:
    case Op::kObjective:
      return Kind::kLoss;
    case Op::kBackwardWeight:
      return Kind::kWeightHalf;
    case Op::kRecompute:
      return Kind::kRecompute;
    default:
      if (plan::traits_of(n.op).backward) return Kind::kBackward;
      return plan::traits_of(n.op).modules || n.op == Op::kLoadMicroBatch ? Kind::kForward : Kind::kUpdate;
  }
}

constexpr int kLeft = 150, kWidth = 1200, kTop = 70, kComputeHeight = 16, kLaneHeight = 8, kGap = 6;
constexpr size_t kColumns = size_t{2} * kWidth;
constexpr size_t kWords = 20;  ///< maximum characters of a rank's label; longer ones would cover lane names

/// The columns of one row, and how long each kind ran in them.
class Row {
 public:
  explicit Row(double seconds_per_column) : per_column_(seconds_per_column), columns_(kColumns) {}
  void hide_waits() { hides_waits_ = true; }

  void add(Kind kind, double begin, double end) {
    if (!(end > begin)) return;
    used_ = true;
    const auto column = [&](double t) {
      return std::clamp(static_cast<int64_t>(t / per_column_), int64_t{0},
                        static_cast<int64_t>(kColumns) - 1);
    };
    for (int64_t c = column(begin); c <= column(end); ++c) {
      const double from = static_cast<double>(c) * per_column_;
      const double common = std::min(end, from + per_column_) - std::max(begin, from);
      if (common > 0) columns_[static_cast<size_t>(c)][static_cast<size_t>(kind)] += common;
    }
  }
  bool used() const { return used_; }

  /// Returns one rectangle for each range of adjacent columns of the same kind.
  std::string rectangles(double y, int height) const {
    std::string text;
    for (size_t c = 0; c < kColumns;) {
      const Kind kind = longest(c);
      const size_t begin = c;
      while (c < kColumns && longest(c) == kind) ++c;
      if (kind == Kind::kIdle) continue;
      text += fmt::format("<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{}\" fill=\"{}\"/>\n",
                          kLeft + 0.5 * static_cast<double>(begin), y, 0.5 * static_cast<double>(c - begin),
                          height, kKinds[static_cast<size_t>(kind)].colour);
    }
    return text;
  }

 private:
  using Seconds = std::array<double, kAllKinds>;

  /// Returns the kind that ran longest in the column. Ties go to the first of the enum.
  Kind longest(size_t c) const {
    Seconds all = columns_[c];
    double rest = per_column_;
    for (const double seconds : all) rest -= seconds;
    all[static_cast<size_t>(Kind::kIdle)] = hides_waits_ ? 0 : rest;
    return static_cast<Kind>(std::max_element(all.begin(), all.end()) - all.begin());
  }

  double per_column_;
  std::vector<Seconds> columns_;
  bool used_ = false, hides_waits_ = false;
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return out;
}

std::string words_at(double x, double y, const std::string& text, const char* anchor = "start") {
  return fmt::format("<text x=\"{:g}\" y=\"{:g}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

/// Draws the bands of the ranks from top to bottom.
class Picture {
 public:
  Picture(double zero, double seconds) : zero_(zero), seconds_(seconds), per_column_(seconds / kColumns) {}

  void add(const TracedRank& rank) {
    std::vector<Row> rows(plan::kLanes, Row(per_column_));
    const std::vector<Instruction>& all = rank.plan->instructions;
    for (size_t i = 0; i < rank.line.times.size(); ++i) {
      const Instruction& n = all[i];
      const plan::Times& t = rank.line.times[i];
      if (!n.is_transfer()) row(&rows, plan::Lane::kCompute)->add(kind_of(n), t.begin - zero_, t.end - zero_);
      if (n.is_transfer() || plan::starts_with_collective(n))
        row(&rows, plan::sending_lane(n))
            ->add(n.is_transfer() ? kind_of(n) : Kind::kTransfer, t.sent_begin - zero_, t.sent_end - zero_);
    }
    body_ += words_at(4, y_ + 12, rank.name.substr(0, kWords));
    for (size_t l = 0; l < rows.size(); ++l) {
      const bool compute = static_cast<plan::Lane>(l) == plan::Lane::kCompute;
      if (!compute && !rows[l].used()) continue;
      if (!compute) rows[l].hide_waits();
      const int height = compute ? kComputeHeight : kLaneHeight;
      body_ += fmt::format("<rect x=\"{}\" y=\"{:g}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", kLeft, y_,
                           kWidth, height, kKinds[0].colour);
      body_ += rows[l].rectangles(y_, height);
      if (!compute)
        body_ += fmt::format("<text x=\"{}\" y=\"{:g}\" text-anchor=\"end\" font-size=\"8\">{}</text>\n",
                             kLeft - 4, y_ + kLaneHeight - 1, plan::lane_name(static_cast<plan::Lane>(l)));
      y_ += height + 1;
    }
    y_ += kGap;
  }

  std::string svg(const std::string& title) const {
    const double height = y_ + kGap;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:g}\" width=\"{0}\" height=\"{1:g}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
        "<rect width=\"{0}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n",
        kLeft + kWidth + 40, height, escaped(title));
    text += fmt::format("<text x=\"4\" y=\"18\" font-size=\"14\">{}</text>\n", escaped(title));
    return text + legend() + axis(height) + body_ + "</svg>\n";
  }

 private:
  static Row* row(std::vector<Row>* rows, plan::Lane lane) { return &(*rows)[static_cast<size_t>(lane)]; }

  static std::string legend() {
    std::string text;
    double x = 4;
    for (const KindRow& k : kKinds) {
      text +=
          fmt::format("<rect x=\"{:g}\" y=\"28\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", x, k.colour);
      text += words_at(x + 16, 38, k.name);
      x += 40 + 6.2 * static_cast<double>(std::char_traits<char>::length(k.name));
    }
    return text;
  }

  /// Returns vertical lines, with labels, at 5 to 13 round numbers of seconds.
  std::string axis(double height) const {
    const double rough = seconds_ / 10, power = std::pow(10, std::floor(std::log10(rough)));
    const double round = rough / power;
    const double step = power * (round < 1.5 ? 1 : round < 3.5 ? 2 : round < 7.5 ? 5 : 10);
    std::string text;
    for (int i = 0; i * step <= seconds_; ++i) {
      const double x = kLeft + i * step / seconds_ * kWidth;
      text +=
          fmt::format("<line x1=\"{0:.4g}\" y1=\"{1}\" x2=\"{0:.4g}\" y2=\"{2:g}\" stroke=\"#b0bec5\"/>\n", x,
                      kTop - 8, height);
      text += words_at(std::round(10 * x) / 10, kTop - 12, fmt::format("{:g} s", i * step), "middle");
    }
    return text;
  }

  double zero_, seconds_, per_column_;
  double y_ = kTop;
  std::string body_;
};

}  // namespace

std::string trace_picture(const std::vector<TracedRank>& ranks, const std::string& title) {
  double begin = std::numeric_limits<double>::infinity(), end = 0;
  for (const TracedRank& rank : ranks) {
    if (rank.line.times.empty()) continue;
    const double first = rank.line.times.front().ready;
    begin = std::min(begin, first);
    end = std::max(end, first + plan::overlap_of(*rank.plan, rank.line).makespan);
  }
  const double seconds = end > begin ? end - begin : 1e-9;  // nothing ran, or in no time
  Picture picture(end > begin ? begin : 0, seconds);
  for (const TracedRank& rank : ranks) picture.add(rank);
  return picture.svg(title);
}

}  // namespace hawser::train
