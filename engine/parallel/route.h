// Route: how the bytes of a collective divide among the levels of a network, by the order in which our sums
// and gathers send them. The total is that of the ledger's ring form (comm/ledger.h), which says nothing
// about who is near: sums go all-to-all inside a sum group and then across (comm/ordered_sums.h), so a rank
// sends more to far ranks than around a ring.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/parallel/transfer_group.h"

namespace hawser::parallel {

inline constexpr size_t kMostLevels = 4;

enum class HopKind : uint8_t {
  kInside,  ///< addends among the ranks of a sum group; without sum groups, among all
  kAcross,  ///< sums of sum groups, to the ranks of the same place in other groups
  kGather,  ///< finished sums, or shards, to all ranks
  kDirect,  ///< messages, and pieces that each rank has for each other
};
const char* hop_kind_name(HopKind kind);

/// Bytes by level: 0 is the innermost.
using LevelBytes = std::array<int64_t, kMostLevels>;

/// One hop: parts[l] of Route::whole parts of all bytes are sent to ranks that share the block of level l,
/// but none below.
struct Hop {
  HopKind kind = HopKind::kDirect;
  LevelBytes parts{};
};
struct Route {
  int64_t whole = 1;  ///< the sum of the parts of all hops; 1 if no hop sends anything
  std::vector<Hop> hops;
};

/// The network: the ranks [k * blocks[l], (k + 1) * blocks[l]) of the world share a block of level l, for
/// each of fewer than kMostLevels levels, ascending. All ranks share the block of the next level.
/// `rings`: all-gathers go around rings, one for each rank of the smallest block, as NCCL's do; otherwise
/// each rank sends its shard to each other.
struct Topology {
  std::vector<int64_t> blocks;
  bool rings = false;

  size_t levels() const { return blocks.size() + 1; }
};

/// The route of the member that sends most over the outermost level. `members`: as members_of returns them.
Route route_of(const Sent& sent, std::span<const int64_t> members, const Topology& topology);

/// The bytes of each hop by level. Their sum is `bytes`; what does not divide is in the first part.
std::vector<LevelBytes> bytes_by_hop(const Route& route, int64_t bytes);

}  // namespace hawser::parallel
