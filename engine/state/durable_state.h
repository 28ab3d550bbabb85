// Durable state: the parts of the ranks' memory that a checkpoint stores, masters and the arrays of the
// optimizer (plan/state_table.h), under global names. Each rank writes and reads its own elements. The files
// do not depend on the layout of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/sharded_save.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

/// Returns the pieces that `rank` writes. If several ranks have the same elements, each writes a share. The
/// pieces point into the rank's memory, or read what is outside its arena.
/// `beside_steps`: of the snapshot that the save begins, if there are snapshots.
std::vector<checkpoint::PieceView> pieces_of(const Rank& rank, const nn::ParameterTable& table,
                                             bool beside_steps);

/// Verifies every digest; each file is read by one rank of the world. On a mismatch all ranks throw the same
/// error. Collective.
void verify_together(const Ranks& ranks, const checkpoint::Reader& reader);

/// True if the checkpoint lacks `p` and may: `p` is a factor of a new adapter, a new score head, or a
/// weight of a base that the checkpoint leaves out.
bool may_lack(const checkpoint::Reader& reader, const nn::Parameter& p);

/// What load_tensors takes: weights and the arrays of the optimizer, to continue training; weights alone; or
/// the averages of the weights in their place, where the checkpoint has them.
enum class Take { kState, kWeights, kAverages };

/// Loads the tensors that the checkpoint has (checkpoint_match.h); each rank reads its own elements. With
/// kState, averages that the checkpoint lacks begin as the weights. If the disk fails during the load, the
/// ranks have a mix of two states until another load completes. Collective.
void load_tensors(const Ranks& ranks, const checkpoint::Reader& reader, Take take);

/// Sets a rank's averages of the weights, if the optimizer keeps them, to its weights.
void begin_averages(const Rank& rank, const nn::ParameterTable& table);

/// Calls fn(parameter, first element, end of elements, their offset in the group's state, the state) for each
/// run of elements whose master weights `rank` holds.
template <typename Fn>
void part_of(const Rank& rank, const nn::Parameter& p, Fn fn) {
  const GroupState& s = rank.executor().state(p.group);
  for (const mesh::ElementRun& run : rank.layout().state_of(p, rank.number()))
    fn(p, run.begin, run.end, run.at, s);
}

/// Calls part_of for every parameter.
template <typename Fn>
void each_part(const Rank& rank, const nn::ParameterTable& table, Fn fn) {
  for (const nn::Parameter& p : table.all()) part_of(rank, p, fn);
}

}  // namespace hawser::train
