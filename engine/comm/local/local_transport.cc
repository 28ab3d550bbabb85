#include "engine/comm/local/local_transport.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/comm/agreement.h"

namespace hawser::comm {

LocalTransport::LocalTransport(std::shared_ptr<Session> session, int32_t rank, const CommOptions& options)
    : session_(std::move(session)),
      rank_(rank),
      timeout_seconds_(options.timeout_seconds),
      bandwidth_limit_(options.bandwidth_limit),
      kernels_(*options.kernels) {}

int32_t LocalTransport::lane(const Lane& lane) {
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& known) { return known.name == lane.name; });
  const auto number = static_cast<int32_t>(found - lanes_.begin());
  if (found == lanes_.end()) lanes_.push_back(lane);
  return number;
}

void LocalTransport::add_group(int32_t, int32_t lane, const std::vector<int32_t>& members,
                               const std::string& name, LinkTopology) {
  auto group = std::make_unique<Group>();
  group->meeting = session_->meeting(members, name, made_[{members, name}]++);
  group->member = static_cast<int32_t>(std::find(members.begin(), members.end(), rank_) - members.begin());
  const Lane& made = lanes_[static_cast<size_t>(lane)];
  group->timeout_seconds = made.timeout_seconds > 0 ? made.timeout_seconds : timeout_seconds_;
  group->collectives =
      std::make_unique<LocalCollectives>(*group->meeting, group->member, kernels_, session_->fault());
  const std::lock_guard lock(groups_mutex_);
  groups_.push_back(std::move(group));
}

LocalTransport::Group& LocalTransport::group_of(const Call& call) {
  const std::lock_guard lock(groups_mutex_);
  return *groups_[static_cast<size_t>(call.group)];
}

void LocalTransport::run(const Call& call) {
  Group& group = group_of(call);
  guarded(group, [&] {
    switch (call.signature.operation) {
      case Operation::kSend:
        return send(group, call);
      case Operation::kRecv:
        return recv(group, call);
      default:
        return collective(group, call);
    }
  });
}

/// When it returns, no member reads this member's call any more, because every member checks for a fault
/// before it reads.
void LocalTransport::find_cause(const Call& call, const Error& error) {
  Group& group = group_of(call);
  guarded(group, [&] {
    Meeting& meeting = *group.meeting;
    const auto came = [&](int32_t m) { return meeting.sides[m].failed.load(); };
    const auto ready = [&] {
      for (int32_t m = 0; m < meeting.size(); ++m)
        if (!came(m)) return false;
      return true;
    };
    meeting.sides[group.member].call.store(&call, std::memory_order_release);
    meeting.sides[group.member].failed.store(true);
    notify_members(group);
    const double deadline = meeting_deadline(call, group.timeout_seconds);
    const auto meet = [&] {
      wait_for_all(group, call, deadline, "entered", ready, came);
      touch_memory(group, [&] { group.collectives->compare(call); });
    };
    fail_after_meeting(error, group.timeout_seconds, meet, [&] { session_->fault().raise_if_set(); });
  });
  throw error;
}

template <class Body>
void LocalTransport::guarded(Group& group, const Body& body) {
  try {
    body();
  } catch (...) {
    abort(Error::caught(rank_));
    // Other members may be reading this member's memory, which its owner may free once this function returns.
    group.gate().wait_until(kNoDeadline, session_->spins(),
                            [&] { return group.meeting->working.load() == 0; });
    throw;
  }
}

bool LocalTransport::abort(const Error& error) noexcept {
  const bool first = session_->fault().set(error);
  session_->notify_all();
  return first;
}

void LocalTransport::collective(Group& group, const Call& call) {
  Meeting& meeting = *group.meeting;
  Meeting::Member& side = meeting.sides[group.member];
  const uint64_t entered = ++group.calls, all = static_cast<uint64_t>(meeting.size()) * entered;
  const double deadline = call.begun + group.timeout_seconds;
  const auto came = [&](int32_t m) { return meeting.sides[m].entered.load() >= entered; };
  side.call.store(&call, std::memory_order_release);
  side.entered.store(entered, std::memory_order_release);
  if (meeting.arrivals.fetch_add(1) + 1 == all) {
    touch_memory(group, [&] { group.collectives->compare(call); });
    meeting.compared.fetch_add(1);
    notify_members(group);
  }
  wait_for_all(
      group, call, deadline, "entered", [&] { return meeting.compared.load() >= entered; }, came);
  const double met = steady_seconds();
  touch_memory(group, [&] { group.collectives->work(call); });
  slow_down(group, met, call.ledger_bytes);
  if (meeting.finishes.fetch_add(1) + 1 == all) notify_members(group);
  wait_for_all(
      group, call, deadline, "finished", [&] { return meeting.finishes.load() >= all; }, came);
}

/// A send completes when its receiver has taken the data.
void LocalTransport::send(Group& group, const Call& call) {
  Meeting::Pair& pair = group.meeting->pair(group.member, call.peer);
  pair.sent.store(&call, std::memory_order_release);
  pair.posted.store(call.sequence + 1);
  group.meeting->sides[call.peer].gate.notify();
  wait_for_peer(group, call, "took it", [&] { return pair.taken.load() > call.sequence; });
}

void LocalTransport::recv(Group& group, const Call& call) {
  Meeting& meeting = *group.meeting;
  Meeting::Pair& pair = meeting.pair(call.peer, group.member);
  wait_for_peer(group, call, "sent it", [&] { return pair.posted.load() > call.sequence; });
  const double met = steady_seconds();
  touch_memory(group, [&] {
    const Call& sent = *pair.sent.load(std::memory_order_acquire);
    if (sent.bytes != call.bytes) {
      fail_bytes(Operation::kRecv, meeting.name, call.sequence, meeting.members[call.peer], sent.bytes, rank_,
                 call.bytes);
    }
    if (call.bytes > 0) std::memcpy(call.out, sent.in, static_cast<size_t>(call.bytes));
  });
  slow_down(group, met, call.bytes);
  pair.taken.store(call.sequence + 1);
  meeting.sides[call.peer].gate.notify();
}

/// Waits until ready(). Throws the fault, or an error that names the members m for which came(m) is false.
template <class Ready, class Came>
void LocalTransport::wait_for_all(const Group& group, const Call& call, double deadline, const char* verb,
                                  const Ready& ready, const Came& came) {
  const Meeting& meeting = *group.meeting;
  const auto missing = [&] {
    std::vector<int32_t> ranks;
    for (int32_t m = 0; m < meeting.size(); ++m) {
      if (!came(m)) ranks.push_back(meeting.members[m]);
    }
    return ranks;
  };
  const auto left = [&] {
    return session_->any_gone() && std::any_of(meeting.members.begin(), meeting.members.end(),
                                               [&](int32_t r) { return session_->gone(r); });
  };
  const bool woken = group.gate().wait_until(deadline, session_->spins(),
                                             [&] { return ready() || session_->fault().is_set() || left(); });
  if (ready()) return;
  session_->fault().raise_if_set();
  std::vector<int32_t> ranks = missing();
  if (woken) {
    std::erase_if(ranks, [&](int32_t r) { return !session_->gone(r); });
    fail(Code::kUnavailable, "{} {} of group '{}': {} ended before it",
         operation_name(call.signature.operation), call.sequence, meeting.name, name_ranks(ranks));
  }
  fail_missing(group, call, ranks, verb);
}

template <class Ready>
void LocalTransport::wait_for_peer(const Group& group, const Call& call, const char* verb,
                                   const Ready& ready) {
  const int32_t peer = group.meeting->members[call.peer];
  const bool woken = group.gate().wait_until(call.begun + group.timeout_seconds, session_->spins(), [&] {
    return ready() || session_->fault().is_set() || session_->gone(peer);
  });
  if (ready()) return;
  session_->fault().raise_if_set();
  if (woken) {
    fail(Code::kUnavailable, "{} {} of group '{}': rank {} ended before it",
         operation_name(call.signature.operation), call.sequence, group.meeting->name, peer);
  }
  fail_missing(group, call, {peer}, verb);
}

/// Runs a function that reads or writes other members' memory; see Meeting::working.
template <class Body>
void LocalTransport::touch_memory(const Group& group, const Body& body) {
  group.meeting->working.fetch_add(1);
  const struct Leave {
    LocalTransport& self;
    const Group& group;
    ~Leave() {
      group.meeting->working.fetch_sub(1);
      if (self.session_->fault().is_set()) self.notify_members(group);
    }
  } leave{*this, group};
  session_->fault().raise_if_set();
  body();
}

void LocalTransport::fail_missing(const Group& group, const Call& call, const std::vector<int32_t>& missing,
                                  const char* verb) const {
  const std::vector<int32_t> ranks = root_causes(missing);
  const std::string text =
      fmt::format("{} {} of group '{}' ({} members) timed out after {} s on rank {}",
                  operation_name(call.signature.operation), call.sequence, group.meeting->name,
                  group.meeting->size(), group.timeout_seconds, rank_);
  if (ranks == missing)
    fail(Code::kTimeout, "{0}: {1} never {2}; check what delays {1}, or raise the timeout", text,
         missing.empty() ? "a member" : name_ranks(missing), verb);
  fail(Code::kTimeout, "{0} for {1}, blocked by {2}; check what delays {2}, or raise the timeout", text,
       name_ranks(missing), name_ranks(ranks));
}

std::vector<int32_t> LocalTransport::root_causes(const std::vector<int32_t>& missing) const {
  std::set<int32_t> ranks;
  for (const int32_t rank : missing) ranks.merge(session_->blocking_ranks(rank));
  return {ranks.begin(), ranks.end()};
}

void LocalTransport::waits_for(const Call* call) noexcept {
  if (call == nullptr) return session_->waits_for_nobody(rank_);
  const Meeting& meeting = *group_of(*call).meeting;
  if (call->peer < 0) return session_->waits_for_all(rank_, meeting);
  session_->waits_for_rank(rank_, meeting.members[call->peer]);
}

void LocalTransport::notify_members(const Group& group) {
  for (int32_t m = 0; m < group.meeting->size(); ++m) {
    if (m != group.member || session_->fault().is_set()) group.meeting->sides[m].gate.notify();
  }
}

int64_t LocalTransport::charged_bytes(const Call& call) {
  return bandwidth_limit_ > 0 ? group_of(call).charged_bytes : 0;
}

void LocalTransport::slow_down(Group& group, double since, int64_t bytes) {
  if (bandwidth_limit_ <= 0) return;
  group.charged_bytes += bytes;
  group.gate().wait_until(since + static_cast<double>(bytes) / bandwidth_limit_, 0,
                          [&] { return session_->fault().is_set(); });
}

}  // namespace hawser::comm
