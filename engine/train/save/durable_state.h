// What a checkpoint holds of the ranks' memory: masters and moments under global names. Each rank writes and
// reads its own elements; no layout is left in what is written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/train/ranks/ranks.h"

namespace hawser::train {

inline constexpr const char* kMomentPrefix[] = {"optimizer.m.", "optimizer.v."};

/// What `rank` writes: of what it holds, the part that falls to it among all who hold the same. Points into
/// its memory.
std::vector<checkpoint::PieceView> pieces_of(const Rank& rank, const nn::ParameterTable& table);

/// Every digest is right, or all throw alike. Each file is read by one rank of the world. Collective.
void verify_together(const Ranks& ranks, const checkpoint::Reader& reader);

/// Each rank reads its own elements. The tensors must be there (checkpoint_match.h). Should the disk fail
/// now, the ranks are half loaded until another load comes to its end. Collective.
void load_tensors(const Ranks& ranks, const checkpoint::Reader& reader, bool moments);

/// Calls fn(parameter, its first element here, one past its last, place of the first in the group's state,
/// the state) if `rank` has any master weights of it.
template <typename Fn>
void part_of(const Rank& rank, const nn::Parameter& p, Fn fn) {
  const GroupState& s = rank.executor().state(p.group);
  const int64_t begin = std::max(p.offset, s.range.begin), end = std::min(p.offset + p.size, s.range.end);
  if (begin < end) fn(p, begin - p.offset, end - p.offset, begin - s.range.begin, s);
}

template <typename Fn>
void each_part(const Rank& rank, const nn::ParameterTable& table, Fn fn) {
  for (const nn::Parameter& p : table.all()) part_of(rank, p, fn);
}

}  // namespace hawser::train
