// Plays the schedules of all stages through: when each action runs if a forward takes 1, an input half and a weight half 1
// each and messages nothing, and how much each rank keeps. Slow and obvious.
#pragma once

#include <algorithm>
#include <map>
#include <span>
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

/// A pair takes 2 and ends with both, or 3 with its weight half if `with_weights`.
inline Played play(const parallel::pipeline::Shape& shape, bool with_weights = false) {
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
        const size_t end = next[s] + (!all[s][next[s]].paired ? 1 : with_weights ? 3 : 2);
        const std::span<const Action> piece(&all[s][next[s]], end - next[s]);
        int64_t from = now[s], takes = 0;
        bool can = true;
        const auto needs = [&](const auto& done, int64_t place, const Action& a) {
          const auto found = done.find({place, a.micro_batch});
          can &= found != done.end();
          if (can) from = std::max(from, found->second);
        };
        for (const Action& a : piece) {
          const int64_t place = place_of(shape, static_cast<int64_t>(s), a.chunk);
          const bool input = a.part == Part::kBackward || a.part == Part::kBackwardInput;
          if (a.part == Part::kForward && place > 0) needs(forward, place - 1, a);
          if (input) needs(forward, place, a);
          if (input && place < last) needs(backward, place + 1, a);
          if (a.part == Part::kBackwardWeight && piece.size() == 1) needs(backward, place, a);
          takes += a.part == Part::kBackward ? 2 : 1;
        }
        if (!can) break;
        if (begun[s] < 0) begun[s] = from;
        now[s] = from + takes, busy[s] += takes;
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
