// QueuedRank: the RankComm and the ProcessGroups of every transport. They check a call, record what the
// ledger needs and queue the call for the thread of its lane.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/comm/progress.h"

namespace hawser::comm {

/// A group's name and counters. They outlive the ProcessGroup, because queued calls may.
struct GroupCounters {
  struct Entry {
    std::atomic<int64_t> calls{0}, bytes{0}, wire_bytes{0}, charged_bytes{0};
  };
  void add(const Call& call);

  std::array<Entry, static_cast<size_t>(Operation::kCount)> by_operation;
  GroupName named;
};

/// Throws kInvalidArgument for a rank outside the world and for options that no transport supports.
void check_connect(int32_t rank, int32_t world_size, const CommOptions& options);

class QueuedGroup;

class QueuedRank final : public RankComm {
 public:
  QueuedRank(std::unique_ptr<Transport> transport, int32_t spins);
  ~QueuedRank() override;

  int32_t rank() const override { return transport_->rank(); }
  int32_t world_size() const override { return transport_->world_size(); }
  std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name, const Lane& lane,
                                           LinkTopology pairs) override;
  void expect(std::span<const GroupRequest> groups) override { transport_->expect(groups); }
  bool has_lanes() const override { return transport_->has_lanes(); }
  std::unique_ptr<DeviceComm> on_device(const DeviceUse& use) override;
  std::unique_ptr<ProcessGroup> make_staged_group(std::vector<int32_t> members, std::string name,
                                                  const Lane& lane, const HostStaging& staging) override;
  bool abort(const Error& error) noexcept override { return transport_->abort(error.on_rank(rank())); }
  int64_t transport_bytes() const override { return transport_->bytes(); }
  Connections connections() const override { return transport_->connections(); }
  std::vector<std::string> lane_names() const override;
  int64_t take_records(int32_t lane, Record* out, int64_t most) override {
    return lanes_[static_cast<size_t>(lane)]->recorder().take_finished(out, most);
  }
  int64_t recall(Record* out, int64_t most) const override;
  std::vector<GroupName> group_names() const override;

 private:
  std::unique_ptr<QueuedGroup> make_queued(std::vector<int32_t> members, std::string name, const Lane& lane,
                                           LinkTopology pairs);
  void check_members(const std::vector<int32_t>& members, const std::string& name) const;
  Progress& progress_of(const Lane& lane);
  static void count(void* self, const Call& call);

  std::unique_ptr<Transport> transport_;
  const int32_t spins_;
  // These containers grow only when a group is created; the lanes' threads and callers of recall read them.
  mutable std::mutex groups_mutex_;
  std::vector<std::unique_ptr<GroupCounters>> groups_;
  std::vector<std::unique_ptr<Progress>> lanes_;  ///< indexed by lane number
  std::vector<std::string> lane_names_;           ///< indexed by lane number
  std::unique_ptr<CallTrail> trail_;  ///< trail of its device's calls in all lanes; null before on_device
};

}  // namespace hawser::comm
