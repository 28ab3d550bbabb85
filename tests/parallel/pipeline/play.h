// Schedule replay: simulates the schedules of all stages, slowly and obviously: when each action runs if
// messages take no time, and how much each rank keeps.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::testing {

struct Played {
  bool ends = true;  ///< false: deadlock, every stage waits for another
  int64_t makespan = 0;
  std::vector<int64_t> in_flight;  ///< maximum chunks of micro-batches that each stage keeps at once
  std::vector<int64_t> idle;       ///< idle time of each stage between its first and last action
};

/// The time that each kind of action takes.
struct PartCosts {
  int64_t forward = 1, input = 1, weight = 1;
  int64_t of(plan::Part part) const {
    return part == plan::Part::kForward          ? forward
           : part == plan::Part::kBackward       ? input + weight
           : part == plan::Part::kBackwardWeight ? weight
                                                 : input;
  }
};

/// The results of overlapped actions are available when both actions are done. `with_weights`: the pair and
/// its weight pass are one unit, which begins when all its inputs are available.
inline Played play(const parallel::pipeline::Shape& shape, bool with_weights = false,
                   const PartCosts& costs = {}) {
  using plan::Action, plan::Part;
  const int64_t last = shape.stages * shape.chunks - 1;
  std::vector<std::vector<Action>> all;
  for (int64_t s = 0; s < shape.stages; ++s) all.push_back(actions(shape, s));
  // Times at which forward and backward of a chunk are done, by position in the model and micro-batch.
  std::map<std::pair<int64_t, int32_t>, int64_t> forward, backward;
  std::vector<size_t> next(all.size());
  std::vector<int64_t> now(all.size()), begun(all.size(), -1), busy(all.size()), kept(all.size());
  Played played{.in_flight = std::vector<int64_t>(all.size()), .idle = std::vector<int64_t>(all.size())};
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < all.size(); ++s) {
      while (next[s] < all[s].size()) {
        const size_t end = next[s] + (!all[s][next[s]].overlaps_next ? 1 : with_weights ? 3 : 2);
        const std::span<const Action> piece(&all[s][next[s]], end - next[s]);
        int64_t begin = now[s], first = -1, end_at = now[s], takes = 0;
        bool can = true;
        for (const Action& a : piece) {
          const int64_t place = place_of(shape, static_cast<int64_t>(s), a.chunk);
          const bool input = a.part == Part::kBackward || a.part == Part::kBackwardInput;
          int64_t there = 0;
          const auto needs = [&](const auto& done, int64_t of) {
            const auto found = done.find({of, a.micro_batch});
            can &= found != done.end();
            if (can) there = std::max(there, found->second);
          };
          if (a.part == Part::kForward && place > 0) needs(forward, place - 1);
          if (input) needs(forward, place);
          if (input && place < last) needs(backward, place + 1);
          if (a.part == Part::kBackwardWeight && piece.size() == 1) needs(backward, place);
          begin = std::max(begin, there);
          if (first < 0) first = begin;
          end_at = std::max(end_at, there) + costs.of(a.part), takes += costs.of(a.part);
        }
        if (!can) break;
        if (with_weights) first = begin, end_at = begin + takes;
        if (begun[s] < 0) begun[s] = first;
        now[s] = end_at, busy[s] += takes;
        for (const Action& a : piece) {
          const int64_t place = place_of(shape, static_cast<int64_t>(s), a.chunk);
          if (a.part == Part::kForward)
            forward[{place, a.micro_batch}] = now[s], ++kept[s];
          else if (a.part != Part::kBackwardWeight)
            backward[{place, a.micro_batch}] = now[s];
        }
        played.in_flight[s] = std::max(played.in_flight[s], kept[s]);
        for (const Action& a : piece)
          if (a.part == Part::kBackward || a.part == Part::kBackwardWeight) --kept[s];
        next[s] = end, moved = true;
      }
    }
  }
  for (size_t s = 0; s < all.size(); ++s) {
    played.ends &= next[s] == all[s].size();
    played.makespan = std::max(played.makespan, now[s]);
    played.idle[s] = now[s] - begun[s] - busy[s];
  }
  return played;
}

}  // namespace hawser::testing
