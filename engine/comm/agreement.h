// Agreement: checks that the members of a call make the same call, as a function of their signatures. Members
// that see the same signatures throw the same error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/steady_clock.h"
#include "engine/comm/call.h"

namespace hawser::comm {

/// Returns how long a member whose wait has timed out keeps receiving from other members, which may have
/// entered the call later: at least 2 s, because a busy host delays a thread by more than half a second, and
/// the error would then name that thread's rank too.
double listening_seconds(double timeout_seconds);

/// Returns a text such as "rank 1 and rank 3".
std::string name_ranks(const std::vector<int32_t>& ranks);

/// Throws kInvalidArgument with the two ranks that differ and the call of each.
[[noreturn]] void fail_mismatch(const std::string& group, uint64_t sequence, int32_t rank,
                                const Signature& here, int32_t other_rank, const Signature& there);

/// The call that a rank is at.
struct CallAt {
  int32_t rank;
  uint64_t sequence;
  const std::string& group;
  const Signature& signature;
};
/// Throws kInvalidArgument, because two ranks of one call are at different calls.
[[noreturn]] void fail_elsewhere(const CallAt& here, const CallAt& there);

/// Throws kInvalidArgument, because byte counts of two members differ in all_to_all_v, or in send and recv.
[[noreturn]] void fail_bytes(Operation operation, const std::string& group, uint64_t sequence,
                             int32_t from_rank, int64_t sent, int32_t to_rank, int64_t expected);

/// Returns the deadline until which hosts wait for each other after their devices failed in `call`. It is the
/// same for all ranks that began the call together, whether their device timed out or its link broke before;
/// otherwise some hosts would give up before the others arrive.
double meeting_deadline(const Call& call, double timeout_seconds);

/// Returns how long members that all arrived, and agree, look for the cause in another of their groups. That
/// group's members find the cause at about the same time, and then keep receiving for a while.
inline double looking_seconds(double timeout_seconds) { return 2 * listening_seconds(timeout_seconds); }

/// Called after devices failed in a call with `error`. It throws the error that meet() throws when the hosts
/// of the members compare the call; otherwise the error that look() throws when another group reports one;
/// otherwise `error`. If hosts are missing although this device did not time out, it throws both texts,
/// because these hosts may have completed the call.
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

/// signature(m) is the signature of member m. Throws if any differs from the first.
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
