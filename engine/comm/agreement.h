// Checks that the members of a call agree about it, as a function of their signatures. Members that see the
// same signatures throw the same error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/steady_clock.h"
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

/// Until when hosts wait for each other after their devices failed in `call`. All that began it together give
/// up together, whether their device waited in vain or its link broke before: only then do they hear each
/// other.
double meeting_deadline(const Call& call, double timeout_seconds);

/// How long members that all came, and agree, look for the cause in another of their groups. Its members find
/// it at about the same time, and then listen for a while.
inline double looking_seconds(double timeout_seconds) { return 2 * listening_seconds(timeout_seconds); }

/// After devices failed in a call with `error`: throws what meet() throws, where the hosts of its members
/// compare it; what look() throws, where they hear of other groups; else `error`. Both of meet's and `error`
/// if hosts are missing though this device did not wait: they may be done with the call.
template <class Meet, class Look>
[[noreturn]] void fail_after_meeting(const Error& error, double timeout_seconds, const Meet& meet,
                                     const Look& look) {
  try {
    meet();
  } catch (const Error& found) {
    if (found.code() != Code::kTimeout || error.code() == Code::kTimeout) throw;
    throw Error(found.code(), error.message() + "; " + found.message());
  }
  const double until = steady_seconds() + looking_seconds(timeout_seconds);
  for (; steady_seconds() < until; std::this_thread::sleep_for(std::chrono::milliseconds(10))) look();
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
