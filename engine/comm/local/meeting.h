// What ranks of one process share. A Session lasts from the first connect until the last RankComm is gone; a
// Meeting is one group's place to come together: who has entered which call, and with which memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/comm/call.h"
#include "engine/comm/fault.h"
#include "engine/comm/gate.h"

namespace hawser::comm {

struct Meeting {
  /// One member's side. Its call stays readable until every member has finished it.
  struct alignas(64) Member {
    std::atomic<const Call*> call{nullptr};
    std::atomic<uint64_t> entered{0};  ///< calls
    Gate gate;                         ///< where it waits for the others
  };
  /// Point to point, from one member to another.
  struct Pair {
    std::atomic<const Call*> sent{nullptr};
    std::atomic<uint64_t> posted{0}, taken{0};
  };

  Meeting(std::vector<int32_t> members, std::string name);
  int32_t size() const { return static_cast<int32_t>(members.size()); }
  Pair& pair(int32_t from, int32_t to) { return pairs[static_cast<size_t>(from) * members.size() + to]; }

  const std::vector<int32_t> members;  ///< world ranks
  const std::string name;
  std::unique_ptr<Member[]> sides;
  std::unique_ptr<Pair[]> pairs;
  // Counts over all calls: all have entered call s once arrivals is size * (s + 1), and nobody enters call s
  // + 1 before all have finished call s.
  alignas(64) std::atomic<uint64_t> arrivals{0};
  alignas(64) std::atomic<uint64_t> finishes{0};
  /// Members that touch others' memory now. A member whose call fails sets the fault and then waits for 0;
  /// one that begins to work counts itself and then looks for a fault.
  alignas(64) std::atomic<int32_t> working{0};
};

class Session {
 public:
  explicit Session(int32_t ranks);

  int32_t ranks() const { return ranks_; }
  int32_t spins() const { return spins_; }
  Fault& fault() { return fault_; }
  /// Whoever waits in a meeting looks again.
  void notify_all();

  /// False if the rank came before.
  bool join(int32_t rank);
  void leave(int32_t rank);
  bool any_gone() const { return gone_count_.load() > 0; }
  bool gone(int32_t rank) const { return gone_[static_cast<size_t>(rank)].load(); }

  /// The meeting of the `occurrence`-th group of these members and this name.
  std::shared_ptr<Meeting> meeting(const std::vector<int32_t>& members, const std::string& name,
                                   int32_t occurrence);

 private:
  const int32_t ranks_;
  const int32_t spins_;
  Fault fault_;
  std::unique_ptr<std::atomic<bool>[]> gone_;
  std::atomic<int32_t> gone_count_{0};
  std::mutex mutex_;
  std::vector<bool> joined_;
  using Key = std::pair<std::pair<std::vector<int32_t>, std::string>, int32_t>;
  std::map<Key, std::shared_ptr<Meeting>> meetings_;
};

}  // namespace hawser::comm
