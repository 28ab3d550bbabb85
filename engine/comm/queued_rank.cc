#include "engine/comm/queued_rank.h"

#include <algorithm>
#include <functional>

#include "engine/comm/device/device_collectives.h"
#include "engine/comm/device/staged_messages.h"
#include "engine/comm/queued_group.h"

namespace hawser::comm {

void check_connect(int32_t rank, int32_t world_size, const CommOptions& options) {
  if (rank < 0 || rank >= world_size) {
    fail(Code::kInvalidArgument, "there is no rank {} in a world of {}; ranks are numbered from 0", rank,
         world_size);
  }
  if (options.kernels == nullptr) fail(Code::kInvalidArgument, "CommOptions::kernels is NULL");
  if (!(options.timeout_seconds > 0)) {
    fail(Code::kInvalidArgument, "the timeout is {} s; it must be above 0", options.timeout_seconds);
  }
}

QueuedRank::QueuedRank(std::unique_ptr<Transport> transport, int32_t spins)
    : transport_(std::move(transport)), spins_(spins) {
  progress_of({});
}

QueuedRank::~QueuedRank() {
  lanes_.clear();
  transport_->leave();
}

std::unique_ptr<ProcessGroup> QueuedRank::make_group(std::vector<int32_t> members, std::string name,
                                                     const Lane& lane, LinkTopology pairs) {
  return make_queued(std::move(members), std::move(name), lane, pairs);
}

std::unique_ptr<QueuedGroup> QueuedRank::make_queued(std::vector<int32_t> members, std::string name,
                                                     const Lane& lane, LinkTopology pairs) {
  transport_->fault().raise_if_set();
  check_members(members, name);
  Progress& progress = progress_of(lane);
  const auto place = std::find(members.begin(), members.end(), rank()) - members.begin();
  GroupCounters* counters = nullptr;
  int32_t index = 0;
  {
    const std::lock_guard lock(groups_mutex_);
    index = static_cast<int32_t>(groups_.size());
    groups_.push_back(std::make_unique<GroupCounters>());
    counters = groups_.back().get();
    counters->named = {name, members, lane.name};
  }
  try {
    transport_->add_group(index, progress.lane(), members, name, pairs);
  } catch (...) {
    transport_->abort(Error::caught(rank()));
    throw;
  }
  return std::make_unique<QueuedGroup>(progress, *counters, index, static_cast<int32_t>(place),
                                       std::move(members), std::move(name), lane.sums, pairs);
}

void QueuedRank::check_members(const std::vector<int32_t>& members, const std::string& name) const {
  if (std::find(members.begin(), members.end(), rank()) == members.end()) {
    fail(Code::kInvalidArgument, "rank {} creates group '{}' but is not a member of it", rank(), name);
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] < 0 || members[i] >= world_size() || (i > 0 && members[i] <= members[i - 1])) {
      fail(Code::kInvalidArgument,
           "member {} of group '{}' is rank {}; members are ascending ranks of a world of {}", i, name,
           members[i], world_size());
    }
  }
}

Progress& QueuedRank::progress_of(const Lane& lane) {
  const auto number = static_cast<size_t>(transport_->lane(lane));
  const std::lock_guard lock(groups_mutex_);
  while (lanes_.size() <= number) {
    lanes_.push_back(std::make_unique<Progress>(*transport_, static_cast<int32_t>(lanes_.size()),
                                                lane.at_once, spins_, &QueuedRank::count, this));
    lane_names_.push_back(lane.name);
  }
  return *lanes_[number];
}

namespace {

/// Hosts carry no data of these groups: they exchange addresses when a group is made, and compare calls after
/// a failure.
class QueuedDeviceComm final : public DeviceComm {
 public:
  using MakeQueued = std::function<std::unique_ptr<QueuedGroup>(std::vector<int32_t>, std::string)>;

  QueuedDeviceComm(const DeviceUse& use, Transport& transport, Progress& progress, CallTrail& trail,
                   MakeQueued make_queued)
      : make_queued_(std::move(make_queued)), collectives_(use, transport, progress, trail) {}

  std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name) override {
    const auto hosts = make_queued_(members, name + " (hosts)");
    auto group = make_queued_(std::move(members), std::move(name));
    collectives_.connect(group->index(), group->name(), *hosts);
    group->move_to(&collectives_);
    return group;
  }
  const RegisteredLinks& registered() const override { return collectives_.registered(); }
  const CallTrail& trail() const override { return collectives_.trail(); }
  void wait() override { collectives_.wait(); }
  void drain() noexcept override { collectives_.drain(); }
  void begin_capture() override { collectives_.begin_capture(); }
  CallsOfGraph end_capture() override { return collectives_.end_capture(); }
  void launches(const CapturedCalls& calls) override { collectives_.launches(calls); }
  void launched(const CapturedCalls& calls) override { collectives_.launched(calls); }

 private:
  MakeQueued make_queued_;
  DeviceCollectives collectives_;
};

}  // namespace

/// A device's call ends when its stream has run it, so its lane needs a thread.
std::unique_ptr<DeviceComm> QueuedRank::on_device(const DeviceUse& use) {
  Lane lane = use.lane;
  lane.at_once = false;
  if (trail_ == nullptr) trail_ = std::make_unique<CallTrail>();
  return std::make_unique<QueuedDeviceComm>(use, *transport_, progress_of(lane), *trail_,
                                            [this, lane](std::vector<int32_t> members, std::string name) {
                                              return make_queued(std::move(members), std::move(name), lane,
                                                                 LinkTopology::kTree);
                                            });
}

std::unique_ptr<ProcessGroup> QueuedRank::make_staged_group(std::vector<int32_t> members, std::string name,
                                                            const Lane& lane, const HostStaging& staging) {
  std::unique_ptr<QueuedGroup> group =
      make_queued(std::move(members), std::move(name), lane, LinkTopology::kAll);
  group->move_to(std::make_unique<StagedMessages>(staging, *transport_, progress_of(lane)));
  return group;
}

int64_t QueuedRank::recall(Record* out, int64_t most) const {
  const std::lock_guard lock(groups_mutex_);
  const auto lanes = static_cast<int64_t>(lanes_.size());
  int64_t count = 0;
  for (const auto& lane : lanes_) count += lane->recorder().recall(out + count, most / lanes);
  std::sort(out, out + count, [](const Record& a, const Record& b) { return a.issued < b.issued; });
  return count;
}

std::vector<std::string> QueuedRank::lane_names() const {
  const std::lock_guard lock(groups_mutex_);
  return lane_names_;
}

std::vector<GroupName> QueuedRank::group_names() const {
  const std::lock_guard lock(groups_mutex_);
  std::vector<GroupName> names;
  for (const auto& group : groups_) names.push_back(group->named);
  return names;
}

void QueuedRank::count(void* self, const Call& call) {
  auto& rank = *static_cast<QueuedRank*>(self);
  const std::lock_guard lock(rank.groups_mutex_);
  rank.groups_[call.group]->add(call);
}

void GroupCounters::add(const Call& call) {
  Entry& entry = by_operation[static_cast<size_t>(call.signature.operation)];
  entry.calls.fetch_add(1, std::memory_order_relaxed);
  entry.bytes.fetch_add(call.ledger_bytes, std::memory_order_relaxed);
  entry.wire_bytes.fetch_add(call.wire_bytes, std::memory_order_relaxed);
  entry.charged_bytes.fetch_add(call.charged_bytes, std::memory_order_relaxed);
}

}  // namespace hawser::comm
