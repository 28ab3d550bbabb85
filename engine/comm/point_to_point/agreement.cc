// Agreement between processes: detects that members are in different calls, or that a member is missing. This
// needs no extra round: the first message from one member to another in a call begins with a tag. A member
// whose wait times out notifies the members to which it has sent nothing yet that it gave up, and keeps
// receiving for a while. Members that are delayed for the same reason give up too, or have already sent a
// message; those that send nothing are missing.
#include "engine/comm/agreement.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/comm/gate.h"
#include "engine/comm/point_to_point/collectives.h"

namespace hawser::comm {

/// Starts a call, and sets the tags that this member sends and expects.
void PeerCollectives::begin_call(const PeerGroup& group, const Call& call, double deadline,
                                 double timeout_seconds) {
  group_ = &group;
  call_ = &call;
  deadline_ = deadline;
  timeout_seconds_ = timeout_seconds;
  ++serial_;
  tag_ = Tag{};
  tag_.group_mark = group.mark;
  tag_.sequence = call.sequence;
  tag_.signature = call.signature;
  tag_.set_group(group.name);
  expected_ = tag_;
  if (call.signature.operation == Operation::kRecv) expected_.signature.operation = Operation::kSend;
}

void PeerCollectives::meet(const PeerGroup& group, const Call& call, double deadline,
                           double timeout_seconds) {
  begin_call(group, call, deadline, timeout_seconds);
  barrier();
}

/// Exchanges one message with a member in each direction. The first message of a call begins with a tag. Zero
/// bytes send nothing, unless `always` is set, which sends the tag: if all pairs exchange, two different
/// calls are then detected at the first exchange.
void PeerCollectives::exchange(int32_t member, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                               bool always) {
  const bool own_sizes = call_->signature.own_sizes != 0;
  const auto m = static_cast<size_t>(member);
  const bool first_out = (out_bytes > 0 || always) && told_[m] != serial_;
  const bool first_in = (in_bytes > 0 || always) && heard_[m] != serial_;
  if (first_out) told_[m] = serial_;
  tag_.bytes = own_sizes ? call_->in_bytes[m] : 0;
  expected_.bytes = own_sizes ? call_->out_bytes[m] : 0;
  swap_messages(member, {&tag_, first_out ? tag_size() : 0, out, out_bytes},
                {&arrived_, first_in ? tag_size() : 0, in, in_bytes, &PeerCollectives::fits, this});
  if (first_in) heard_[m] = serial_;
}

/// Sends a tag without data; recv_tag receives one.
void PeerCollectives::send_tag(int32_t member) {
  told_[static_cast<size_t>(member)] = serial_;
  swap_messages(member, {&tag_, tag_size(), nullptr, 0}, {});
}

void PeerCollectives::recv_tag(int32_t member) {
  swap_messages(member, {}, {&arrived_, tag_size(), nullptr, 0, &PeerCollectives::fits, this});
  heard_[static_cast<size_t>(member)] = serial_;
}

void PeerCollectives::swap_messages(int32_t member, const Outgoing& out, const Incoming& in) {
  arrived_.mark = 0;
  arrived_.gave_up = 0;
  switch (link_.exchange_tagged(group_->members[member], out, in, deadline_)) {
    case Link::Outcome::kDone:
      return;
    case Link::Outcome::kRefused:
      refuse(member);
    case Link::Outcome::kTooLate:
      break;
  }
  const bool there = heard_[static_cast<size_t>(member)] == serial_ || fits(this);
  const bool sends = call_->signature.operation == Operation::kSend;
  if (there || sends) link_.fail_late(sends ? "send to" : "exchange with", group_->members[member]);
  fail_missing(member);
}

bool PeerCollectives::fits(void* self) {
  const auto& s = *static_cast<PeerCollectives*>(self);
  return s.arrived_.same_call(s.expected_) && s.arrived_.bytes == s.expected_.bytes &&
         s.arrived_.gave_up == 0;
}

/// Throws the error for a message from `member` that this call does not expect.
void PeerCollectives::refuse(int32_t member) {
  const Tag& there = arrived_;
  const int32_t rank = group_->members[member];
  if (there.mark != Tag::kMark) {
    fail(Code::kInvalidArgument,
         "rank {} sent rank {} a message that this version does not know; all ranks must run the same build",
         rank, link_.rank());
  }
  if (there.group_mark != tag_.group_mark || there.sequence != tag_.sequence) {
    fail_elsewhere({link_.rank(), call_->sequence, group_->name, call_->signature},
                   {rank, there.sequence, there.group_name(), there.signature});
  }
  if (there.gave_up != 0 && there.signature == expected_.signature) fail_missing(member);
  const bool receives = call_->signature.operation == Operation::kRecv;
  if (receives && there.signature.operation == Operation::kSend) {
    fail_bytes(Operation::kRecv, group_->name, call_->sequence, rank, there.signature.elements, link_.rank(),
               call_->bytes);
  }
  if (there.signature != expected_.signature) {
    fail_mismatch(group_->name, call_->sequence, link_.rank(), call_->signature, rank, there.signature);
  }
  fail_bytes(Operation::kAllToAll, group_->name, call_->sequence, rank, there.bytes, link_.rank(),
             expected_.bytes);
}

/// In a tree, only the partners of a missing member can name it; they report it to all ranks. They keep
/// receiving until `until`, as this member did.
void PeerCollectives::keep_receiving(double until) {
  for (until += 1; steady_seconds() < until; std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    link_.look();
}

/// Throws after nothing arrived from `awaited` in time. Names all members that have not entered the call.
void PeerCollectives::fail_missing(int32_t awaited) {
  const bool alone = call_->peer >= 0;  // a send or recv involves no other member
  std::vector<int32_t> missing;
  tag_.gave_up = 1;
  const double until = steady_seconds() + listening_seconds(timeout_seconds_);
  const std::vector<int32_t> others = partners(group_->pairs, group_->size(), group_->member);
  for (const int32_t m : others) {
    if (!alone && told_[static_cast<size_t>(m)] != serial_)
      link_.send(group_->members[m], &tag_, tag_size(), until);
  }
  const bool awaited_gave_up = arrived_.gave_up != 0;
  for (const int32_t m : others) {
    const bool known = heard_[static_cast<size_t>(m)] == serial_ || (m == awaited && awaited_gave_up);
    if (known || (alone && m != awaited)) continue;
    if (alone || !link_.recv_in_time(group_->members[m], &arrived_, tag_size(), until)) {
      missing.push_back(group_->members[m]);
    } else if (!arrived_.same_call(expected_)) {
      refuse(m);
    }
  }
  if (missing.empty() && group_->pairs == LinkTopology::kTree) keep_receiving(until);
  fail(Code::kTimeout,
       "{} {} of group '{}' ({} members) timed out after {} s on rank {}: {}; check what delays it, or raise "
       "the timeout",
       operation_name(call_->signature.operation), call_->sequence, group_->name, group_->size(),
       timeout_seconds_, link_.rank(),
       missing.empty() ? fmt::format("rank {} entered it but did not finish", group_->members[awaited])
                       : name_ranks(missing) + " never entered it");
}

}  // namespace hawser::comm
