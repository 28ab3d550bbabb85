// LinkTopology: selects the members of a group that send messages to each other. Over TCP only these pairs
// connect.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::comm {

enum class LinkTopology : uint8_t {
  kAll,   ///< all pairs: sums, gathers and exchanges of large data send a message to every member
  kTree,  ///< members 2^k apart: small collectives (all_reduce_i64, all_gather, broadcast, barrier) use trees
};

/// Returns the members to which `member` of `size` sends and from which it receives, ascending. A tree has at
/// most 2 log2 N.
std::vector<int32_t> partners(LinkTopology pairs, int32_t size, int32_t member);

/// Returns the number of members in a row of the grid of all members. Messages in two hops go along a row and
/// then along a column of this grid. Few members form one row, which saves a hop.
int32_t row_of_grid(int32_t members);

}  // namespace hawser::comm
