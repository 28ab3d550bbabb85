// Checks that the members of a call agree about it, as a function of their signatures. Members that see the
// same signatures throw the same error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/call.h"

namespace hawser::comm {

/// How long a member that has waited in vain listens for the others, which may have entered the call later.
double listening_seconds(double timeout_seconds);

/// For example "rank 1 and rank 3".
std::string name_ranks(const std::vector<int32_t>& ranks);

/// Throws kInvalidArgument that names the two sides that differ.
[[noreturn]] void fail_mismatch(const std::string& group, uint64_t sequence, int32_t rank,
                                const Signature& here, int32_t other_rank, const Signature& there);

/// Where a rank is.
struct CallAt {
  int32_t rank;
  uint64_t sequence;
  const std::string& group;
  const Signature& signature;
};
/// Throws kInvalidArgument: two ranks that should meet are at different calls.
[[noreturn]] void fail_elsewhere(const CallAt& here, const CallAt& there);

/// The same for byte counts between two members in all_to_all_v, or in send and recv.
[[noreturn]] void fail_bytes(Operation operation, const std::string& group, uint64_t sequence,
                             int32_t from_rank, int64_t sent, int32_t to_rank, int64_t expected);

/// Until when hosts wait for each other after their devices failed in `call`. All that began it together give up
/// together, whether their device waited in vain or its link broke before: only then do they hear each other.
double meeting_deadline(const Call& call, double timeout_seconds);

/// After devices failed in a call with `error`: throws what meet() throws, where the hosts of its members compare
/// it; else `error`. Both if hosts are missing though this device did not wait: they may be done with the call.
template <class Meet>
[[noreturn]] void fail_after_meeting(const Error& error, const Meet& meet) {
  try {
    meet();
  } catch (const Error& found) {
    if (found.code() != Code::kTimeout || error.code() == Code::kTimeout) throw;
    throw Error(found.code(), error.message() + "; " + found.message());
  }
  throw error;
}

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
