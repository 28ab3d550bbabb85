#include "engine/ranks/choose_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/base/error.h"
#include "engine/execute/agreed_error.h"
#include "engine/ranks/collective_phases.h"

namespace hawser::train {
namespace {

using config::DeviceTransport;

/// Describes this rank's device. It may be the CPU although other ranks have a GPU.
DeviceCard card_of(const DeviceChoice& choice, const device::DeviceInfo& device) {
  if (choice.plugin == nullptr) return {"", "it computes on the CPU"};
  const auto* const id = reinterpret_cast<const char*>(device.hardware_id);
  return {std::string(id, sizeof device.hardware_id), device::why_no_peers(*choice.plugin)};
}

/// Returns why the devices cannot all communicate directly; "" if they can.
std::string obstacle_of(const std::vector<DeviceCard>& cards) {
  std::map<std::string, size_t> first;
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    if (!cards[rank].obstacle.empty()) return fmt::format("rank {}: {}", rank, cards[rank].obstacle);
    const auto [other, is_new] = first.emplace(cards[rank].hardware_id, rank);
    if (!is_new) return fmt::format("rank {} and rank {} share one GPU", other->second, rank);
  }
  return "";
}

}  // namespace

TransportChoice choose_transport(DeviceTransport wanted, const std::vector<DeviceCard>& cards) {
  if (wanted == DeviceTransport::kHost) return {false, "host, because /comm/device_transport says so"};
  const std::string obstacle = obstacle_of(cards);
  if (obstacle.empty()) return {true, "nccl, because every rank has its own GPU"};
  if (wanted == DeviceTransport::kNccl)
    fail(Code::kDeviceUnavailable,
         "/comm/device_transport \"nccl\" is impossible: {}; give every rank its own GPU and install NCCL, "
         "or use "
         "\"host\" or \"auto\"",
         obstacle);
  return {false, "host, because " + obstacle};
}

TransportChoice agree_on_transport(comm::RankComm* rank, const DeviceChoice& choice, DeviceTransport wanted,
                                   const device::DeviceInfo& device) {
  std::vector<int32_t> everyone(static_cast<size_t>(rank->world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = rank->make_group(std::move(everyone), "devices", {}, comm::LinkTopology::kTree);
  CollectivePhases together(world.get());
  const DeviceCard own = card_of(choice, device);
  const std::vector<std::string> ids = together.from_all([&] { return own.hardware_id; });
  const std::vector<std::string> obstacles = together.from_all([&] { return own.obstacle; });
  std::vector<DeviceCard> cards;
  for (size_t r = 0; r < ids.size(); ++r) cards.push_back({ids[r], obstacles[r]});
  try {
    return choose_transport(wanted, cards);
  } catch (const Error& error) {
    throw AgreedError(error);
  }
}

TransportChoice predict_transport(const DeviceChoice& choice, const config::ResolvedConfig& config) {
  const auto ranks = static_cast<int32_t>(config.mesh.world());
  if (ranks == 1 || config.device == "cpu") return {};
  std::vector<DeviceCard> cards;
  for (int32_t r = 0; r < ranks; ++r)
    cards.push_back(card_of(choice, choice.plugin ? choice.devices[static_cast<size_t>(choice.index_of(r))]
                                                  : device::DeviceInfo()));
  return choose_transport(config.comm.device_transport, cards);
}

}  // namespace hawser::train
