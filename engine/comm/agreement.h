// Checks that the members of a call agree about it, as a function of their signatures. Members that see the
// same signatures throw the same error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/call.h"

namespace hawser::comm {

/// For example "rank 1 and rank 3".
std::string name_ranks(const std::vector<int32_t>& ranks);

/// Throws kInvalidArgument that names the two sides that differ.
[[noreturn]] void fail_mismatch(const std::string& group, uint64_t sequence, int32_t rank,
                                const Signature& here, int32_t other_rank, const Signature& there);

/// The same for byte counts between two members in all_to_all_v, or in send and recv.
[[noreturn]] void fail_bytes(Operation operation, const std::string& group, uint64_t sequence,
                             int32_t from_rank, int64_t sent, int32_t to_rank, int64_t expected);

/// signature(m) is member m's. Members differ if any differs from the first.
template <class SignatureOf>
void check_agreement(const std::string& group, uint64_t sequence, const std::vector<int32_t>& members,
                     const SignatureOf& signature) {
  const Signature& first = signature(0);
  for (size_t m = 1; m < members.size(); ++m) {
    const Signature& other = signature(static_cast<int32_t>(m));
    if (!(other == first)) fail_mismatch(group, sequence, members[0], first, members[m], other);
  }
}

}  // namespace hawser::comm
