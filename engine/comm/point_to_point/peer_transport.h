// PeerTransport: the transport over Links, with one rank's groups, and a link and a staging buffer for each
// lane.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "engine/comm/point_to_point/collectives.h"
#include "engine/comm/point_to_point/network.h"
#include "engine/comm/transport.h"

namespace hawser::comm {

class PeerTransport final : public Transport {
 public:
  /// `link` is the link of the main lane. If `network` is null, all lanes use it.
  PeerTransport(std::shared_ptr<Link> link, std::shared_ptr<Network> network, int32_t world_size,
                const CommOptions& options);

  int32_t rank() const override { return link_->rank(); }
  int32_t world_size() const override { return world_size_; }
  int32_t lane(const Lane& lane) override;
  bool has_lanes() const override { return network_ != nullptr; }
  void expect(std::span<const GroupRequest> groups) override;
  void add_group(int32_t group, int32_t lane, const std::vector<int32_t>& members, const std::string& name,
                 LinkTopology pairs) override;
  void run(const Call& call) override;
  [[noreturn]] void find_cause(const Call& call, const Error& error) override;
  bool abort(const Error& error) noexcept override;
  void look() override;
  Fault& fault() override { return fault_; }
  void leave() noexcept override {}
  int64_t bytes() const override;
  Connections connections() const override { return network_ ? network_->connections() : Connections(); }
  int64_t wire_bytes(int32_t lane) const override;

 private:
  /// The resources of a lane's thread.
  struct Way {
    Way(const Lane& lane, std::shared_ptr<Link> link, const PeerTransport& transport);
    const std::string name;
    const bool sums;
    const double timeout_seconds;
    const std::shared_ptr<Link> link;
    Staging staging;
    PeerCollectives collectives;
  };
  struct Group : PeerGroup {
    Way* way = nullptr;
  };

  template <typename Body>
  void guarded(const Call& call, const Body& body);

  const std::shared_ptr<Network> network_;  ///< must outlive its links
  const std::shared_ptr<Link> link_;
  const int32_t world_size_;
  const double timeout_seconds_;
  const kernels::KernelTable& kernels_;
  Fault fault_;
  mutable std::mutex mutex_;  ///< guards the next two, which grow only when a group is made
  std::vector<std::unique_ptr<Way>> ways_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::map<uint64_t, uint64_t> made_;
};

/// Creates the Comm of one local rank over `link`, and over `network` for other lanes (null: none).
std::shared_ptr<Comm> make_peer_comm(std::shared_ptr<Link> link, int32_t world_size,
                                     std::shared_ptr<Network> network);

}  // namespace hawser::comm
