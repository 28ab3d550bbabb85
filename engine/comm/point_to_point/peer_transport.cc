#include "engine/comm/point_to_point/peer_transport.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/hash.h"
#include "engine/comm/agreement.h"
#include "engine/comm/gate.h"
#include "engine/comm/queued_rank.h"

namespace hawser::comm {
namespace {

/// Bytes of the staging buffer of lanes without sums, for all_reduce_i64.
constexpr int64_t kIntegerBytes = 4096;

/// Returns a hash that is the same on every rank for the same members and name.
uint64_t mark_of(const std::vector<int32_t>& members, const std::string& name) {
  Hash hash;
  for (const int32_t m : members) hash.add(m);
  return hash.add(name).value();
}

class PeerComm final : public Comm {
 public:
  PeerComm(std::shared_ptr<Link> link, int32_t world_size, std::shared_ptr<Network> network)
      : network_(std::move(network)), link_(std::move(link)), rank_{link_->rank()}, world_size_(world_size) {}
  int32_t world_size() const override { return world_size_; }
  std::span<const int32_t> local_ranks() const override { return rank_; }
  void abort(const Error& error) noexcept override { link_->abort(error.on_rank(rank_[0])); }

  std::unique_ptr<RankComm> connect(int32_t rank, const CommOptions& options) override {
    check_connect(rank, world_size_, options);
    if (rank != rank_[0]) {
      fail(Code::kInvalidArgument, "rank {} is not local: this comm belongs to rank {}", rank, rank_[0]);
    }
    if (options.bandwidth_limit > 0) {
      fail(Code::kConfigInvalid,
           "/comm/bandwidth_limit is {}, but it applies only to ranks of one process; leave it out",
           options.bandwidth_limit);
    }
    const std::lock_guard lock(mutex_);
    if (!connected_.expired()) {
      fail(Code::kBusy, "rank {} is connected already: a comm serves one engine at a time", rank);
    }
    // This separate reference ends with the RankComm; then the comm can be connected again.
    const auto held = std::shared_ptr<Link>(link_.get(), [keep = link_](Link*) {});
    connected_ = held;
    return std::make_unique<QueuedRank>(std::make_unique<PeerTransport>(held, network_, world_size_, options),
                                        0);
  }

 private:
  const std::shared_ptr<Network> network_;
  std::shared_ptr<Link> link_;
  std::array<int32_t, 1> rank_;
  int32_t world_size_;
  std::mutex mutex_;
  std::weak_ptr<Link> connected_;
};

}  // namespace

PeerTransport::PeerTransport(std::shared_ptr<Link> link, std::shared_ptr<Network> network, int32_t world_size,
                             const CommOptions& options)
    : network_(std::move(network)),
      link_(std::move(link)),
      world_size_(world_size),
      timeout_seconds_(options.timeout_seconds),
      kernels_(*options.kernels) {
  ways_.push_back(std::make_unique<Way>(Lane(), link_, *this));
}

PeerTransport::Way::Way(const Lane& lane, std::shared_ptr<Link> connections, const PeerTransport& transport)
    : name(lane.name),
      sums(lane.sums),
      timeout_seconds(lane.timeout_seconds > 0 ? lane.timeout_seconds : transport.timeout_seconds_),
      link(std::move(connections)),
      staging(lane.sums ? process_transport_bytes(transport.world_size_) : kIntegerBytes),
      collectives(*link, staging, transport.kernels_, transport.fault_, transport.world_size_) {}

int32_t PeerTransport::lane(const Lane& lane) {
  if (network_ == nullptr) return 0;
  const auto found =
      std::find_if(ways_.begin(), ways_.end(), [&](const auto& way) { return way->name == lane.name; });
  const auto number = static_cast<int32_t>(found - ways_.begin());
  if (found != ways_.end()) return number;
  auto way = std::make_unique<Way>(lane, network_->lane(lane.name), *this);
  const std::lock_guard lock(mutex_);
  ways_.push_back(std::move(way));
  return number;
}

namespace {

/// Returns the world ranks of those members of a group to which a member sends.
std::vector<int32_t> partner_ranks(const std::vector<int32_t>& members, LinkTopology pairs, int32_t rank) {
  const auto size = static_cast<int32_t>(members.size());
  const auto member = static_cast<int32_t>(std::find(members.begin(), members.end(), rank) - members.begin());
  std::vector<int32_t> ranks;
  for (const int32_t m : partners(pairs, size, member)) ranks.push_back(members[static_cast<size_t>(m)]);
  return ranks;
}

}  // namespace

void PeerTransport::expect(std::span<const GroupRequest> groups) {
  if (network_ == nullptr) return;
  std::map<std::string, std::set<int32_t>> wanted;
  for (const GroupRequest& group : groups)
    for (const int32_t other : partner_ranks(group.members, group.pairs, rank()))
      wanted[group.lane.name].insert(other);
  network_->expect(wanted);
}

void PeerTransport::add_group(int32_t, int32_t lane, const std::vector<int32_t>& members,
                              const std::string& name, LinkTopology pairs) {
  auto group = std::make_unique<Group>();
  group->members = members;
  group->name = name;
  group->member = static_cast<int32_t>(std::find(members.begin(), members.end(), rank()) - members.begin());
  const uint64_t mark = mark_of(members, name);
  group->mark = mark + made_[mark]++;
  group->pairs = pairs;
  if (network_ != nullptr) {
    network_->connect(ways_[static_cast<size_t>(lane)]->name, partner_ranks(members, pairs, rank()), mark,
                      name, timeout_seconds_);
  }
  const std::lock_guard lock(mutex_);
  group->way = ways_[static_cast<size_t>(lane)].get();
  groups_.push_back(std::move(group));
}

/// Calls body(group of the call); if that throws, the comm is broken.
template <typename Body>
void PeerTransport::guarded(const Call& call, const Body& body) {
  const Group* group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    group = groups_[static_cast<size_t>(call.group)].get();
  }
  try {
    body(*group);
  } catch (...) {
    abort(Error::caught(rank()));
    throw;
  }
}

void PeerTransport::run(const Call& call) {
  guarded(call, [&](const Group& group) {
    const double timeout = group.way->timeout_seconds;
    group.way->collectives.run(group, call, call.begun + timeout, timeout);
  });
}

void PeerTransport::find_cause(const Call& call, const Error& error) {
  guarded(call, [&](const Group& group) {
    const double timeout = group.way->timeout_seconds;
    const double deadline = meeting_deadline(call, timeout);
    fail_after_meeting(
        error, timeout, [&] { group.way->collectives.meet(group, call, deadline, timeout); },
        [&] { look(); });
  });
  throw error;
}

int64_t PeerTransport::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& way : ways_) bytes += way->sums ? way->staging.bytes() : 0;
  return bytes;
}

int64_t PeerTransport::wire_bytes(int32_t lane) const {
  const std::lock_guard lock(mutex_);
  return ways_[static_cast<size_t>(lane)]->link->sent_bytes();
}

bool PeerTransport::abort(const Error& error) noexcept {
  const bool first = fault_.set(error);
  if (first) link_->abort(error);
  return first;
}

void PeerTransport::look() {
  fault_.raise_if_set();
  link_->look();
}

std::shared_ptr<Comm> make_peer_comm(std::shared_ptr<Link> link, int32_t world_size,
                                     std::shared_ptr<Network> network) {
  return std::make_shared<PeerComm>(std::move(link), world_size, std::move(network));
}

std::shared_ptr<Comm> make_host(const HostTransport& transport, int32_t rank, int32_t world_size) {
  struct Owned {
    const HostTransport* transport;
    ~Owned() {
      if (transport && transport->destroy) transport->destroy(transport->user);
    }
  } owned{&transport};
  auto link = std::make_shared<Link>(transport, rank);
  owned.transport = nullptr;  // the link destroys it now
  if (transport.send == nullptr || transport.recv == nullptr || transport.abort == nullptr) {
    fail(Code::kInvalidArgument, "a host transport needs send, recv and abort; {} is NULL",
         transport.send == nullptr   ? "send"
         : transport.recv == nullptr ? "recv"
                                     : "abort");
  }
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    fail(Code::kInvalidArgument, "there is no rank {} in a world of {}; ranks are numbered from 0", rank,
         world_size);
  }
  return make_peer_comm(std::move(link), world_size, nullptr);
}

}  // namespace hawser::comm
