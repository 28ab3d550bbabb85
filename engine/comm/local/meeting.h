// Meeting and Session: the state that the ranks of one process share. A Session lasts from the first connect
// until the last RankComm is destroyed. A Meeting is the collective state of one group: which member has
// entered which call, and with which memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "engine/comm/call.h"
#include "engine/comm/fault.h"
#include "engine/comm/gate.h"

namespace hawser::comm {

struct Meeting {
  /// One member's state. Its call stays readable until every member has finished it.
  struct alignas(64) Member {
    std::atomic<const Call*> call{nullptr};
    std::atomic<uint64_t> entered{0};  ///< number of calls
    std::atomic<bool> failed{false};   ///< its device failed in `call` (Transport::find_cause)
    Gate gate;                         ///< blocks the member while it waits for others
  };
  /// Messages from one member to another.
  struct Pair {
    std::atomic<const Call*> sent{nullptr};
    std::atomic<uint64_t> posted{0}, taken{0};
  };

  Meeting(std::vector<int32_t> members, std::string name);
  int32_t size() const { return static_cast<int32_t>(members.size()); }
  /// Returns the ranks that have entered fewer calls than `rank`, a member.
  std::vector<int32_t> behind(int32_t rank) const;
  Pair& pair(int32_t from, int32_t to) { return pairs[static_cast<size_t>(from) * members.size() + to]; }

  const std::vector<int32_t> members;  ///< world ranks
  const std::string name;
  std::unique_ptr<Member[]> sides;
  std::unique_ptr<Pair[]> pairs;
  // Counts over all calls. The member that makes arrivals size * (s + 1) is the last to enter call s. It
  // compares the calls of all members, which would take size^2 comparisons if each member did, and makes
  // compared s + 1. Then all members begin to work. No member enters call s + 1 before all have finished call
  // s.
  alignas(64) std::atomic<uint64_t> arrivals{0};
  std::atomic<uint64_t> compared{0};
  alignas(64) std::atomic<uint64_t> finishes{0};
  /// Number of members that access other members' memory now. A member whose call fails sets the fault and
  /// then waits for 0. A member that starts work increments it and then checks for a fault.
  alignas(64) std::atomic<int32_t> working{0};
};

class Session {
 public:
  explicit Session(int32_t ranks);

  int32_t ranks() const { return ranks_; }
  int32_t spins() const { return spins_; }
  Fault& fault() { return fault_; }
  /// Wakes all waiters in meetings, so that they check again.
  void notify_all();

  /// Returns false if the rank has already joined.
  bool join(int32_t rank);
  void leave(int32_t rank);
  bool any_gone() const { return gone_count_.load() > 0; }
  bool gone(int32_t rank) const { return gone_[static_cast<size_t>(rank)].load(); }

  // The following functions record whom each rank's issuing thread waits for.

  void waits_for_nobody(int32_t rank) noexcept;
  void waits_for_rank(int32_t rank, int32_t other) noexcept;
  /// Records that the rank waits for all members of `meeting` that have entered fewer calls. The session
  /// keeps `meeting`.
  void waits_for_all(int32_t rank, const Meeting& meeting) noexcept;
  /// Returns the ranks that block `rank`: it follows whom each rank waits for, up to the ranks that wait for
  /// no other; that may be `rank` itself.
  std::set<int32_t> blocking_ranks(int32_t rank) const;

  /// Returns the meeting of the `occurrence`-th group with these members and this name.
  std::shared_ptr<Meeting> meeting(const std::vector<int32_t>& members, const std::string& name,
                                   int32_t occurrence);

 private:
  const int32_t ranks_;
  const int32_t spins_;
  Fault fault_;
  std::unique_ptr<std::atomic<bool>[]> gone_;
  std::atomic<int32_t> gone_count_{0};
  struct Wait {
    std::atomic<int32_t> rank;  ///< a rank, kNobody, or kAll for the members of `meeting`
    std::atomic<const Meeting*> meeting{nullptr};
  };
  static constexpr int32_t kNobody = -1, kAll = -2;
  std::vector<int32_t> awaited_by(int32_t rank) const;
  std::unique_ptr<Wait[]> waits_;
  std::mutex mutex_;
  std::vector<bool> joined_;
  using Key = std::pair<std::pair<std::vector<int32_t>, std::string>, int32_t>;
  std::map<Key, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace hawser::comm
