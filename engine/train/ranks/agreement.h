// What all ranks of a world must have in common: before anything else is said, and where one speaks for all.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/error.h"
#include "engine/comm/comm.h"
#include "kernels/include/levels.h"

namespace hawser::train {

/// What a rank brings along.
struct Start {
  std::string config_json;
  kernels::CpuLevel level;
  std::string device;         ///< that it computes on
  std::string device_reason;  ///< where /device is "auto": why this one
};

/// Compares what all ranks bring. Where their configs differ, every rank throws the same kConfigInvalid,
/// which names the first field that differs, the ranks and their values; the same where "auto" found another
/// device on one than on another: what is there would be left idle without a word. Returns the lowest level
/// of kernels among them, which all can run: levels differ in the last bits of results. Collective; makes a
/// group of the whole world.
kernels::CpuLevel agree_on_start(comm::RankComm* rank, const Start& start);

/// The sum of `here` over the ranks of the group (null: this one alone); the same on all. Collective.
int64_t sum_over_ranks(comm::ProcessGroup* group, int64_t here);

/// Whether any rank of the group says so; the same answer on all. Collective.
inline bool on_any_rank(comm::ProcessGroup* group, bool here) {
  return sum_over_ranks(group, here ? 1 : 0) > 0;
}

/// A rank failed alone: tells the others, and returns what to throw here: the same, naming this rank.
Error told_others(comm::RankComm* end, const Error& error) noexcept;

}  // namespace hawser::train
