// Pairs: which members of a group send each other messages. Ranks over TCP connect these pairs and no others.
#pragma once

#include <cstdint>
#include <vector>

namespace hawser::comm {

enum class Pairs : uint8_t {
  kAll,   ///< each with each: sums, gathers and exchanges of large data send a message to every member
  kTree,  ///< members 2^k apart: agreements (all_reduce_i64, all_gather, broadcast, barrier) go by trees
};

/// The members to which `member` of `size` sends, ascending; those that it receives from, too. 2 log2 N at most
/// of a tree.
std::vector<int32_t> partners(Pairs pairs, int32_t size, int32_t member);

}  // namespace hawser::comm
