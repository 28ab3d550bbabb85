// Plays the schedules of all stages through: when each action runs if a forward takes 1, an input half and a weight half 1
// each and messages nothing, and how much each rank keeps. Slow and obvious.
#pragma once

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "engine/parallel/pipeline/schedule.h"

namespace hawser::testing {

struct Played {
  bool ends = true;  ///< false: every stage waits for another
  int64_t makespan = 0;
  std::vector<int64_t> in_flight;  ///< by stage: the most chunks of micro-batches that it keeps at once
  std::vector<int64_t> idle;       ///< by stage: between its first and its last action
};

inline Played play(const parallel::pipeline::Shape& shape) {
  using plan::Action, plan::Part;
  const int64_t last = shape.stages * shape.chunks - 1;
  std::vector<std::vector<Action>> all;
  for (int64_t s = 0; s < shape.stages; ++s) all.push_back(actions(shape, s));
  // When the forward and the backward of a place in the model are done, by place and micro-batch.
  std::map<std::pair<int64_t, int32_t>, int64_t> forward, backward;
  std::vector<size_t> next(all.size());
  std::vector<int64_t> now(all.size()), begun(all.size(), -1), busy(all.size()), kept(all.size());
  Played played;
  played.in_flight.resize(all.size()), played.idle.resize(all.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < all.size(); ++s) {
      while (next[s] < all[s].size()) {
        const Action a = all[s][next[s]];
        const int64_t place = place_of(shape, static_cast<int64_t>(s), a.chunk);
        int64_t from = now[s];
        const auto needs = [&](const auto& done, int64_t at) {
          const auto found = done.find({at, a.micro_batch});
          if (found == done.end()) return false;
          from = std::max(from, found->second);
          return true;
        };
        if (a.part == Part::kForward && place > 0 && !needs(forward, place - 1)) break;
        if (a.part == Part::kBackward || a.part == Part::kBackwardInput)
          if (!needs(forward, place) || (place < last && !needs(backward, place + 1))) break;
        if (a.part == Part::kBackwardWeight && !needs(backward, place)) break;
        const int64_t takes = a.part == Part::kBackward ? 2 : 1;
        if (begun[s] < 0) begun[s] = from;
        now[s] = from + takes, busy[s] += takes;
        if (a.part == Part::kForward)
          forward[{place, a.micro_batch}] = now[s], ++kept[s];
        else if (a.part != Part::kBackwardWeight)
          backward[{place, a.micro_batch}] = now[s];
        played.in_flight[s] = std::max(played.in_flight[s], kept[s]);
        if (a.part == Part::kBackward || a.part == Part::kBackwardWeight) --kept[s];
        ++next[s], moved = true;
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
