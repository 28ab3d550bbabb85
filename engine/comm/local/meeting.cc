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

std::vector<int32_t> Meeting::behind(int32_t rank) const {
  uint64_t entered = 0;
  for (size_t m = 0; m < members.size(); ++m)
    if (members[m] == rank) entered = sides[m].entered.load();
  std::vector<int32_t> ranks;
  for (size_t m = 0; m < members.size(); ++m)
    if (sides[m].entered.load() < entered) ranks.push_back(members[m]);
  return ranks;
}

Session::Session(int32_t ranks)
    : ranks_(ranks),
      spins_(spins_for(ranks)),
      gone_(std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(ranks))),
      waits_(std::make_unique<Wait[]>(static_cast<size_t>(ranks))),
      joined_(static_cast<size_t>(ranks)) {
  for (int32_t r = 0; r < ranks; ++r) waits_for_nobody(r);
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

void Session::waits_for_nobody(int32_t rank) noexcept { waits_for_rank(rank, kNobody); }

void Session::waits_for_rank(int32_t rank, int32_t other) noexcept {
  waits_[static_cast<size_t>(rank)].rank.store(other);
}

/// `meeting` is stored before kAll, so a thread that reads kAll also finds a meeting: this one or a later
/// one.
void Session::waits_for_all(int32_t rank, const Meeting& meeting) noexcept {
  waits_[static_cast<size_t>(rank)].meeting.store(&meeting);
  waits_[static_cast<size_t>(rank)].rank.store(kAll);
}

std::vector<int32_t> Session::awaited_by(int32_t rank) const {
  const Wait& wait = waits_[static_cast<size_t>(rank)];
  const int32_t other = wait.rank.load();
  if (other == kAll) return wait.meeting.load()->behind(rank);
  return other == kNobody ? std::vector<int32_t>() : std::vector{other};
}

std::set<int32_t> Session::blocking_ranks(int32_t rank) const {
  std::set<int32_t> seen{rank}, idle;
  for (std::vector<int32_t> open{rank}; !open.empty();) {
    const int32_t next = open.back();
    open.pop_back();
    const std::vector<int32_t> awaited = awaited_by(next);
    if (awaited.empty()) idle.insert(next);
    for (const int32_t other : awaited)
      if (seen.insert(other).second) open.push_back(other);
  }
  return idle.empty() ? std::set{rank} : idle;  // if none is idle, they wait for each other
}

std::shared_ptr<Meeting> Session::meeting(const std::vector<int32_t>& members, const std::string& name,
                                          int32_t occurrence) {
  const std::lock_guard lock(mutex_);
  const Key key{{members, name}, occurrence};
  if (const auto found = meetings_.find(key); found != meetings_.end()) return found->second;
  // The meeting is made first: if memory runs out, no name without a meeting stays behind.
  return meetings_.emplace(key, std::make_shared<Meeting>(members, name)).first->second;
}

}  // namespace hawser::comm
