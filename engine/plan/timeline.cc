#include "engine/plan/timeline.h"

#include <algorithm>
#include <utility>

namespace hawser::plan {
namespace {

struct Span {
  double begin, end;
};

double total(const std::vector<Span>& spans) {
  double sum = 0;
  for (const Span& s : spans) sum += s.end - s.begin;
  return sum;
}

/// Sorts the spans of several lanes and merges overlaps.
std::vector<Span> merged(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  std::vector<Span> all;
  for (const Span& s : spans) {
    if (all.empty() || s.begin >= all.back().end)
      all.push_back(s);
    else
      all.back().end = std::max(all.back().end, s.end);
  }
  return all;
}

/// Returns the total overlap of two lists, each sorted and without overlaps of its own.
double common(const std::vector<Span>& a, const std::vector<Span>& b) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return sum;
}

/// Returns the time from the first instruction to the end of the last, or of the last wait.
Span extent(const Timeline& timeline) {
  if (timeline.times.empty()) return {0, 0};
  Span all{timeline.times.front().ready, timeline.times.front().end};
  for (const Times& t : timeline.times) {
    all.begin = std::min(all.begin, t.ready);
    all.end = std::max(all.end, t.end);
  }
  for (const Wait& w : timeline.waits) all.end = std::max(all.end, w.end);
  return all;
}

}  // namespace

Overlap overlap_of(const Plan& plan, const Timeline& timeline) {
  std::vector<Span> compute, backward, communication;
  Overlap overlap;
  for (size_t i = 0; i < timeline.times.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    const Times& t = timeline.times[i];
    if (t.sent_end > t.sent_begin) communication.push_back({t.sent_begin, t.sent_end});
    if (n.is_transfer() || t.end <= t.begin) continue;
    compute.push_back({t.begin, t.end});
    overlap.exchanging += t.exchanging, overlap.beside += t.beside;
    if (traits_of(n.op).backward) backward.push_back({t.begin, t.end});
  }
  for (const Wait& w : timeline.waits) overlap.exposed += w.end - w.begin;
  communication = merged(std::move(communication));
  const Span whole = extent(timeline);
  overlap.makespan = whole.end - whole.begin;
  overlap.compute_busy = total(compute);
  overlap.communication_busy = total(communication);
  overlap.hidden = common(compute, communication);
  overlap.behind_backward = common(backward, communication);
  return overlap;
}

PipelineSummary summarise_pipeline(const std::vector<const Plan*>& plans,
                                   const std::vector<Timeline>& timelines) {
  double busy = 0;
  Span all = extent(timelines.front());
  for (size_t rank = 0; rank < timelines.size(); ++rank) {
    busy += overlap_of(*plans[rank], timelines[rank]).compute_busy;
    const Span own = extent(timelines[rank]);
    all = {std::min(all.begin, own.begin), std::max(all.end, own.end)};
  }
  const double makespan = all.end - all.begin, ranks = static_cast<double>(timelines.size());
  return {makespan, makespan > 0 ? 1 - busy / (makespan * ranks) : 0};
}

}  // namespace hawser::plan
