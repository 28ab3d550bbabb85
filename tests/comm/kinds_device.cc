// Device kinds: groups of devices over host transports. Every rank's memory stands for that of a device which
// does nothing until the host waits (tests/harness/far_device). The staging buffer is small, so that sums are
// divided into chunks.
#include "tests/comm/device_rank.h"
#include "tests/comm/worlds.h"

namespace hawser::testing {
namespace {

using comm::CommOptions;

class DeviceWorld final : public comm::Comm {
 public:
  explicit DeviceWorld(std::shared_ptr<comm::Comm> host) : host_(std::move(host)) {}
  int32_t world_size() const override { return host_->world_size(); }
  std::span<const int32_t> local_ranks() const override { return host_->local_ranks(); }
  std::unique_ptr<comm::RankComm> connect(int32_t rank, const CommOptions& options) override {
    return std::make_unique<DeviceRank>(host_->connect(rank, options), options);
  }
  void abort(const Error& error) noexcept override { host_->abort(error); }

 private:
  std::shared_ptr<comm::Comm> host_;
};

std::vector<std::shared_ptr<comm::Comm>> on_devices(const std::vector<std::shared_ptr<comm::Comm>>& hosts) {
  std::vector<std::shared_ptr<comm::Comm>> world;
  for (const auto& host : hosts) world.push_back(std::make_shared<DeviceWorld>(host));
  return world;
}

}  // namespace

const std::vector<WorldKind>& world_kinds() {
  static const std::vector<WorldKind> kinds = {
      {"device", [](int32_t ranks) { return on_devices(local_world(ranks)); }, {1, 2, 3, 4}},
      {"device_memory", [](int32_t ranks) { return on_devices(memory_world(ranks)); }, {2, 3}}};
  return kinds;
}

}  // namespace hawser::testing
