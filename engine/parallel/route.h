// Route: divides the bytes of a collective among the levels of a network, in the way that our sums and
// gathers send them. The total is that of the ledger's ring form (comm/ledger.h), but the ring form does not
// show which ranks are near. Sums are all-to-all inside a sum group and then across groups
// (comm/ordered_sums.h), so a rank sends more to far ranks than in a ring.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/parallel/transfer_group.h"

namespace hawser::parallel {

inline constexpr size_t kMostLevels = 4;

enum class HopKind : uint8_t {
  kInside,  ///< addends, among the ranks of a sum group; without sum groups, among all ranks
  kAcross,  ///< sums of sum groups, to the ranks at the same place in other sum groups
  kGather,  ///< finished sums, or shards, to all ranks
  kDirect,  ///< messages, and the pieces that each rank sends to each other rank
};
const char* hop_kind_name(HopKind kind);

/// Bytes by level. Level 0 is the innermost.
using LevelBytes = std::array<int64_t, kMostLevels>;

/// One hop. Of Route::whole equal parts of all bytes, parts[l] are sent to ranks that share the block of
/// level l, but no smaller block.
struct Hop {
  HopKind kind = HopKind::kDirect;
  LevelBytes parts{};
};
struct Route {
  int64_t whole = 1;  ///< the sum of the parts of all hops; 1 if no hop sends anything
  std::vector<Hop> hops;
};

/// The network. The ranks [k * blocks[l], (k + 1) * blocks[l]) of the world share a block of level l.
/// `blocks` ascends, and has fewer than kMostLevels levels; all ranks share the block of the level after its
/// last. `rings`: all-gathers go around rings, one for each rank of the smallest block, as NCCL's do;
/// otherwise each rank sends its shard to each other rank. `ring_sums`: addends go around the same rings,
/// as in trainers that leave sums to NCCL.
struct Topology {
  std::vector<int64_t> blocks;
  bool rings = false, ring_sums = false;

  size_t levels() const { return blocks.size() + 1; }
};

/// Returns the route of the member that sends most over the outermost level. `members`: as members_of returns
/// them.
Route route_of(const Sent& sent, std::span<const int64_t> members, const Topology& topology);

/// Returns the bytes of each hop by level. Their sum is `bytes`; the first part has the remainder.
std::vector<LevelBytes> bytes_by_hop(const Route& route, int64_t bytes);

}  // namespace hawser::parallel
