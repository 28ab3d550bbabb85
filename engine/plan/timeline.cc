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

/// Total overlap of two lists, each sorted and without overlaps of its own.
double common(const std::vector<Span>& a, const std::vector<Span>& b) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    (a[i].end < b[j].end ? i : j) += 1;
  }
  return sum;
}

}  // namespace

Overlap overlap_of(const Plan& plan, const Timeline& timeline) {
  std::vector<Span> compute, backward, communication;
  Overlap overlap;
  double first = 0, last = 0;
  for (size_t i = 0; i < timeline.times.size(); ++i) {
    const Instruction& n = plan.instructions[i];
    const Times& t = timeline.times[i];
    first = i == 0 ? t.ready : std::min(first, t.ready);
    last = i == 0 ? t.end : std::max(last, t.end);
    if (t.sent_end > t.sent_begin) communication.push_back({t.sent_begin, t.sent_end});
    if (n.is_transfer() || t.end <= t.begin) continue;
    compute.push_back({t.begin, t.end});
    overlap.exchanging += t.exchanging;
    if (traits_of(n.op).backward) backward.push_back({t.begin, t.end});
  }
  for (const Wait& w : timeline.waits) {
    overlap.exposed += w.end - w.begin;
    last = std::max(last, w.end);
  }
  communication = merged(std::move(communication));
  overlap.makespan = last - first;
  overlap.compute_busy = total(compute);
  overlap.communication_busy = total(communication);
  overlap.hidden = common(compute, communication);
  overlap.behind_backward = common(backward, communication);
  return overlap;
}

}  // namespace hawser::plan
