// What a checkpoint stores of the ranks' memory: masters and moments under global names. Each rank writes and
// reads its own elements. The files do not depend on the layout of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

inline constexpr const char* kMomentPrefix[] = {"optimizer.m.", "optimizer.v."};

/// The pieces that `rank` writes: its share of the elements that it and others hold. They point into its
/// memory.
std::vector<checkpoint::PieceView> pieces_of(const Rank& rank, const nn::ParameterTable& table);

/// Verifies every digest; each file is read by one rank of the world. On a mismatch all ranks throw the same
/// error. Collective.
void verify_together(const Ranks& ranks, const checkpoint::Reader& reader);

/// Whether the checkpoint need not have it: a factor of an adapter or a score to begin with, or a weight that
/// it leaves out.
bool may_lack(const checkpoint::Reader& reader, const nn::Parameter& p);

/// Each rank reads its own elements, of the tensors that the checkpoint has (checkpoint_match.h). If the disk
/// fails now, the ranks hold a mix of two states until another load completes. Collective.
void load_tensors(const Ranks& ranks, const checkpoint::Reader& reader, bool moments);

/// Calls fn(parameter, first element, end of elements, their offset in the group's state, the state) for each
/// run of elements whose master weights `rank` holds.
template <typename Fn>
void part_of(const Rank& rank, const nn::Parameter& p, Fn fn) {
  const GroupState& s = rank.executor().state(p.group);
  for (const mesh::ElementRun& run : rank.layout().state_of(p, rank.number()))
    fn(p, run.begin, run.end, run.at, s);
}

template <typename Fn>
void each_part(const Rank& rank, const nn::ParameterTable& table, Fn fn) {
  for (const nn::Parameter& p : table.all()) part_of(rank, p, fn);
}

}  // namespace hawser::train
