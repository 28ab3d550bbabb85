// Pairs: which members of a group send messages to each other. Over TCP only these pairs connect.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::comm {

enum class Pairs : uint8_t {
  kAll,   ///< all pairs: sums, gathers and exchanges of large data send a message to every member
  kTree,  ///< members 2^k apart: agreements (all_reduce_i64, all_gather, broadcast, barrier) go by trees
};

/// The members to which `member` of `size` sends and from which it receives, ascending. At most 2 log2 N for
/// a tree.
std::vector<int32_t> partners(Pairs pairs, int32_t size, int32_t member);

/// What travels in two hops goes along a row and then along a column of a grid of all members: the number of
/// members in a row. A few members form one row, which saves a hop.
int32_t row_of_grid(int32_t members);

}  // namespace hawser::comm
