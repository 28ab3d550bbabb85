#include "engine/comm/local/meeting.h"

#include "engine/device/cpu/thread_pool.h"

namespace hawser::comm {
namespace {

/// Spinning is only worthwhile if every rank's progress thread, caller and a few workers have cores of their
/// own.
int32_t spins_for(int32_t ranks) { return 4 * ranks <= device::default_threads() ? 2000 : 0; }

}  // namespace

Meeting::Meeting(std::vector<int32_t> ranks, std::string group)
    : members(std::move(ranks)),
      name(std::move(group)),
      sides(std::make_unique<Member[]>(members.size())),
      pairs(std::make_unique<Pair[]>(members.size() * members.size())) {}

Session::Session(int32_t ranks)
    : ranks_(ranks),
      spins_(spins_for(ranks)),
      gone_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(ranks))),
      waits_for_(std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(ranks))),
      joined_(static_cast<size_t>(ranks)) {
  for (int32_t r = 0; r < ranks; ++r) waits_for_[static_cast<size_t>(r)].store(kNobody);
}

void Session::notify_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, meeting] : meetings_) {
    for (int32_t m = 0; m < meeting->size(); ++m) meeting->sides[static_cast<size_t>(m)].gate.notify();
  }
}

bool Session::join(int32_t rank) {
  const std::lock_guard lock(mutex_);
  if (joined_[static_cast<size_t>(rank)]) return false;
  joined_[static_cast<size_t>(rank)] = true;
  return true;
}

void Session::leave(int32_t rank) {
  gone_[static_cast<size_t>(rank)].store(true);
  gone_count_.fetch_add(1);
  notify_all();
}

int32_t Session::who_holds_up(int32_t rank) const {
  int32_t last = rank;
  for (int32_t step = 0; step < ranks_; ++step) {
    const int32_t next = waits_for_[static_cast<size_t>(last)].load();
    if (next < 0) return last;
    last = next;
  }
  return rank;  // they wait in a circle
}

std::shared_ptr<Meeting> Session::meeting(const std::vector<int32_t>& members, const std::string& name,
                                          int32_t occurrence) {
  const std::lock_guard lock(mutex_);
  const Key key{{members, name}, occurrence};
  if (const auto found = meetings_.find(key); found != meetings_.end()) return found->second;
  // Made first: a name without a meeting would stay behind where memory runs out in between.
  return meetings_.emplace(key, std::make_shared<Meeting>(members, name)).first->second;
}

}  // namespace hawser::comm
