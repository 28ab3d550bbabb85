#include "engine/comm/device/device_collectives.h"

#include <chrono>
#include <numeric>
#include <thread>

#include "engine/comm/queued_group.h"
#include "engine/device/check.h"

namespace hawser::comm {
namespace {

using device::StreamId;

constexpr StreamId kCompute = StreamId::kCompute;
/// Seconds that a rank waits for the reason of another rank's failure, because a failing rank leaves its
/// group of devices before its reason reaches the other ranks.
constexpr double kHostsHearSeconds = 2;

}  // namespace

DeviceCollectives::DeviceCollectives(const DeviceUse& use, Transport& transport, Progress& progress,
                                     CallTrail& trail)
    : device_(*use.device),
      on_(stream_of(device_, progress.lane())),
      transport_(transport),
      progress_(progress),
      timeout_seconds_(use.timeout_seconds),
      trail_(trail),
      marks_(device_),
      in_(static_cast<size_t>(transport.world_size())),
      out_(static_cast<size_t>(transport.world_size())),
      sums_(*this, {device_.kernels(), device_.stream(on_)}, static_cast<float*>(use.staging),
            use.staging_bytes / int64_t{sizeof(float)}, transport.world_size()),
      by_issuer_(use.by_issuer),
      first_byte_(use.first_byte),
      most_processors_(use.most_processors),
      memory_(use.memory),
      in_graph_(device_) {}

/// Returns the communication stream for the main lane, and a new stream for any other lane.
StreamId DeviceCollectives::stream_of(device::Device& device, int32_t lane) {
  StreamId id = StreamId::kCommunication;
  if (lane != 0) device::check(device, device.make_stream(&id));
  return id;
}

DeviceCollectives::~DeviceCollectives() {
  progress_.drain();
  (void)device_.synchronize(on_);
}

void DeviceCollectives::connect(int32_t index, const std::string& name, ProcessGroup& hosts) {
  Group& made = groups_[index];
  made.name = name;
  made.members = hosts.size();
  made.ranks = hosts.members();
  made.member = hosts.rank();
  const device::PeerLinkRequest request = {.group = made.name.c_str(),
                                           .rank = made.member,
                                           .ranks = made.members,
                                           .timeout_seconds = timeout_seconds_,
                                           .stop = &DeviceCollectives::stopped,
                                           .user = this,
                                           .stream = on_,
                                           .most_processors = most_processors_};
  device::PeerLink* link = nullptr;
  check(device_.make_peer_link(request, &link));
  made.link.reset(link);
  group_ = &made;
  device::PeerId id{};
  if (made.member == 0) check_link(made, link->make_id(&id));
  hosts.wait(hosts.broadcast(id.bytes, sizeof(id.bytes), 0));
  try {
    check_link(made, link->connect(id));
    register_memory(made, hosts);
    if (first_byte_ != nullptr) greet(made);
  } catch (...) {
    fail_with_reason(Error::caught(transport_.rank()));
  }
}

/// Either all members register their memory or none does, because NCCL does not define the behaviour of a
/// call for which only some have registered theirs.
void DeviceCollectives::register_memory(Group& group, ProcessGroup& hosts) {
  std::string why;
  const bool own = registers(group, &why);
  int64_t without = own ? 0 : 1;
  hosts.wait(hosts.all_reduce_i64(&without, 1));
  ++registered_.links;
  if (without == 0) {
    ++registered_.registered;
    return;
  }
  check_link(group, group.link->deregister_memory());
  if (!registered_.without.empty()) return;
  registered_.without = own ? fmt::format("{} other rank{} of group '{}' cannot register memory", without,
                                          without == 1 ? "" : "s", group.name)
                            : why;
}

bool DeviceCollectives::registers(Group& group, std::string* why) const {
  if (memory_ == nullptr || memory_->ranges.empty()) {
    *why = memory_ == nullptr ? "no memory is named" : memory_->without;
    return false;
  }
  for (const PeerMemory::Range& range : memory_->ranges) {
    if (group.link->register_memory(range.begin, range.bytes)) continue;
    *why = group.link->message();
    return false;
  }
  return true;
}

/// Sends one byte from each member to each other, in the same order on all ranks.
void DeviceCollectives::greet(Group& group) {
  check(device_.record(in_graph_.reached.get(), on_));
  for (int32_t from = 0; from < group.members; ++from)
    for (int32_t to = 0; to < group.members; ++to) {
      if (from == to) continue;
      if (group.member == from) check_link(group, group.link->send(first_byte_, 1, to));
      if (group.member == to) check_link(group, group.link->recv(first_byte_, 1, from));
    }
  check(device_.record(in_graph_.done.get(), on_));
  check_link(group, group.link->wait(in_graph_.reached.get(), in_graph_.done.get()));
}

void DeviceCollectives::issues(const Call& call, uint64_t ticket) {
  trail_.add(call, groups_.at(call.group).name);
  Marks& own = marks_.of(ticket);
  if (!by_issuer_) return check(device_.record(own.reached.get(), kCompute));
  try {
    fork(call, own.reached, own.done);
  } catch (const Error&) {
    // The link keeps the reason: the thread that watches the call finds it there, and then looks for its
    // cause.
  }
}

bool DeviceCollectives::captures(const Call& call, QueuedGroup* group) {
  if (captured_ == nullptr) return false;
  fork(call, in_graph_.reached, in_graph_.done);
  captured_->calls.push_back({call, group});
  return true;
}

/// Submits the call after the compute stream's work so far.
void DeviceCollectives::fork(const Call& call, Mark& reached, Mark& done) {
  group_ = &groups_.at(call.group);
  check(device_.record(reached.get(), kCompute));
  check(device_.wait(reached.get(), on_));
  give(call);
  check(device_.record(done.get(), on_));
}

void ForgetCalls::operator()(CapturedCalls* calls) const { delete calls; }

void DeviceCollectives::begin_capture() { captured_.reset(new CapturedCalls); }

CallsOfGraph DeviceCollectives::end_capture() { return std::move(captured_); }

void DeviceCollectives::launches(const CapturedCalls& calls) {
  if (calls.calls.empty()) return;
  transport_.fault().raise_if_set();
  check(device_.record(marks_.of(progress_.next_ticket()).reached.get(), kCompute));
}

void DeviceCollectives::launched(const CapturedCalls& calls) {
  if (calls.calls.empty()) return;
  check(device_.record(marks_.of(progress_.next_ticket()).done.get(), kCompute));
  const CapturedCalls::One* first = nullptr;
  for (const CapturedCalls::One& one : calls.calls) {
    trail_.add(one.call, groups_.at(one.call.group).name);
    one.group->launched(one.call, std::exchange(first, &calls.calls.front()) == nullptr);
  }
}

void DeviceCollectives::wait() { progress_.wait(progress_.next_ticket() - 1); }

void DeviceCollectives::follow(uint64_t ticket) {
  if (captured_ != nullptr) return check(device_.wait(in_graph_.done.get(), kCompute));
  if (by_issuer_ || !progress_.wait_given(ticket))
    check(device_.wait(marks_.of(ticket).done.get(), kCompute));
}

void DeviceCollectives::run(const Call& call) {
  Group& group = groups_.at(call.group);
  Marks& own = marks_.of(call.ticket);
  try {
    if (!by_issuer_) {
      group_ = &group;
      check(device_.wait(own.reached.get(), on_));
      give(call);
      check(device_.record(own.done.get(), on_));
      progress_.given(call.ticket);
    }
    check_link(group, group.link->wait(own.reached.get(), own.done.get()));
    check(device_.error());
  } catch (...) {
    if (!by_issuer_) (void)device_.synchronize(on_);
    fail_with_cause(group, call, Error::caught(transport_.rank()));
  }
}

void DeviceCollectives::give(const Call& call) {
  device::PeerLink& link = *group_->link;
  switch (call.signature.operation) {
    case Operation::kAllGather:
      return all_gather(call);
    case Operation::kReduceScatter:
      return sums_.reduce_scatter(call.reduce, call.reduction, group_->members, group_->member);
    case Operation::kAllReduce:
      return sums_.all_reduce(call.all_reduce, call.reduction, group_->members, group_->member);
    case Operation::kAllToAll:
      return all_to_all(call);
    case Operation::kBroadcast:
      return check_link(*group_, link.broadcast(call.out, call.bytes, call.signature.root));
    case Operation::kSend:
      return check_link(*group_, link.send(call.in, call.bytes, call.peer));
    case Operation::kRecv:
      return check_link(*group_, link.recv(call.out, call.bytes, call.peer));
    case Operation::kAllReduceI64:
    case Operation::kBarrier:
    case Operation::kCount:
      HWS_CHECK(!"numbers and barriers are the host's");
  }
}

void DeviceCollectives::all_gather(const Call& call) {
  for (const GatherPiece& piece : call.gather)
    check_link(*group_, group_->link->all_gather(piece.full, piece.shard,
                                                 piece.shard_elements * dtype_bytes(call.signature.type)));
}

void DeviceCollectives::all_to_all(const Call& call) {
  const bool own_sizes = call.signature.own_sizes != 0;
  int64_t in_at = 0, out_at = 0;
  for (int32_t m = 0; m < group_->members; ++m) {
    in_.bytes[m] = own_sizes ? call.in_bytes[m] : call.bytes;
    out_.bytes[m] = own_sizes ? call.out_bytes[m] : call.bytes;
    in_.at[m] = std::exchange(in_at, in_at + in_.bytes[m]);
    out_.at[m] = std::exchange(out_at, out_at + out_.bytes[m]);
  }
  all_to_all({}, static_cast<char*>(call.out), out_, static_cast<const char*>(call.in), in_);
}

/// Members outside the row have no bytes, so no message goes to them.
void DeviceCollectives::all_to_all(const Row&, char* in, const Messages& received, const char* out,
                                   const Messages& sent) {
  check_link(*group_, group_->link->all_to_all(in, received.at.data(), received.bytes.data(), out,
                                               sent.at.data(), sent.bytes.data()));
}

bool DeviceCollectives::all_gather(char* all, const void* own, int64_t bytes) {
  check_link(*group_, group_->link->all_gather(all, own, bytes));
  return true;
}

void DeviceCollectives::check(device::Status status) const { device::check(device_, status); }

void DeviceCollectives::check_link(const Group& group, device::Status status) {
  if (status != 0) throw Error(static_cast<Code>(status), group.link->message());
}

/// Throws the error of another rank that failed first, if there is one; otherwise `error`.
void DeviceCollectives::fail_with_reason(const Error& error) {
  const double until = steady_seconds() + kHostsHearSeconds;
  do {
    transport_.look();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (error.code() == Code::kUnavailable && steady_seconds() < until);
  throw error;
}

/// A link that times out, or whose peer closed it, does not report the cause. The error of a send or recv
/// names the peer; in a collective the hosts find the cause.
void DeviceCollectives::fail_with_cause(const Group& group, const Call& call, const Error& error) {
  transport_.look();
  const bool unclear = error.code() == Code::kTimeout || error.code() == Code::kUnavailable;
  if (!unclear) throw error;
  const std::string with = call.peer < 0 ? "" : fmt::format(" with rank {}", group.ranks[call.peer]);
  const Error named(error.code(), fmt::format("{} {} of group '{}' on rank {}{}: {}",
                                              operation_name(call.signature.operation), call.sequence,
                                              group.name, transport_.rank(), with, error.message()));
  if (call.peer < 0) transport_.find_cause(call, named);
  fail_with_reason(named);
}

device::Status DeviceCollectives::stopped(void* self) noexcept {
  try {
    static_cast<DeviceCollectives*>(self)->transport_.look();
    return 0;
  } catch (...) {
    return static_cast<device::Status>(Error::caught().code());
  }
}

}  // namespace hawser::comm
