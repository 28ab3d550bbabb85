// DeviceRank: a rank whose memory is treated as that of a far device (tests/harness/far_device).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/device/cpu/thread_pool.h"
#include "kernels/include/levels.h"
#include "tests/harness/far_device/far_device.h"

namespace hawser::testing {

/// A rank whose groups are those of its device.
class DeviceRank final : public comm::RankComm {
 public:
  DeviceRank(std::unique_ptr<comm::RankComm> host, const comm::CommOptions& options)
      : host_(std::move(host)), device_(request()), staging_(1 << 16) {
    timeout_seconds_ = options.timeout_seconds;
    peers({});
  }
  int32_t rank() const override { return host_->rank(); }
  int32_t world_size() const override { return host_->world_size(); }
  std::unique_ptr<comm::ProcessGroup> make_group(std::vector<int32_t> members, std::string name,
                                                 const comm::Lane& lane, comm::LinkTopology pairs) override {
    if (pairs == comm::LinkTopology::kTree)
      return host_->make_group(std::move(members), std::move(name), lane, pairs);
    return peers(lane).make_group(std::move(members), std::move(name));
  }
  /// Returns the trail of the main lane.
  const comm::CallTrail& trail() { return peers({}).trail(); }
  /// Creates a group of the hosts.
  std::unique_ptr<comm::ProcessGroup> make_host_group(std::vector<int32_t> members, std::string name) {
    return host_->make_group(std::move(members), std::move(name));
  }
  bool has_lanes() const override { return host_->has_lanes(); }
  std::unique_ptr<comm::DeviceComm> on_device(const comm::DeviceUse& use) override {
    return host_->on_device(use);
  }
  std::unique_ptr<comm::ProcessGroup> make_staged_group(std::vector<int32_t> members, std::string name,
                                                        const comm::Lane& lane,
                                                        const comm::HostStaging& staging) override {
    return host_->make_staged_group(std::move(members), std::move(name), lane, staging);
  }
  bool abort(const Error& error) noexcept override { return host_->abort(error); }
  int64_t transport_bytes() const override { return host_->transport_bytes(); }
  comm::Connections connections() const override { return host_->connections(); }
  std::vector<std::string> lane_names() const override { return host_->lane_names(); }
  int64_t take_records(int32_t lane, comm::Record* out, int64_t most) override {
    return host_->take_records(lane, out, most);
  }
  int64_t recall(comm::Record* out, int64_t most) const override { return host_->recall(out, most); }
  std::vector<comm::GroupName> group_names() const override { return host_->group_names(); }

 private:
  /// A lane that sums would need a staging buffer of its own; in these tests only the main lane sums.
  comm::DeviceComm& peers(const comm::Lane& lane) {
    std::unique_ptr<comm::DeviceComm>& made = peers_[lane.name];
    if (made == nullptr) {
      const bool main = lane.name == comm::Lane().name;
      made =
          host_->on_device({.device = &device_,
                            .staging = main ? staging_.data() : nullptr,
                            .staging_bytes = main ? static_cast<int64_t>(staging_.size() * sizeof(float)) : 0,
                            .timeout_seconds = timeout_seconds_,
                            .lane = lane});
    }
    return *made;
  }
  device::DeviceRequest request() {
    device::DeviceRequest request;
    request.host_stream = &pool_.stream();
    request.host_kernels = &kernels::cpu_kernels(kernels::best_cpu_level());
    return request;
  }
  std::unique_ptr<comm::RankComm> host_;
  device::ThreadPool pool_{1};
  FarDevice device_;
  std::vector<float> staging_;
  double timeout_seconds_ = 0;
  std::map<std::string, std::unique_ptr<comm::DeviceComm>> peers_;  // by lane
};

}  // namespace hawser::testing
