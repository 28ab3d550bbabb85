// The transport over a Link: one rank's groups and staging.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "engine/comm/point_to_point/collectives.h"
#include "engine/comm/transport.h"

namespace hawser::comm {

class PeerTransport final : public Transport {
 public:
  PeerTransport(std::shared_ptr<Link> link, int32_t world_size, const CommOptions& options);

  int32_t rank() const override { return link_->rank(); }
  int32_t world_size() const override { return world_size_; }
  void add_group(int32_t group, const std::vector<int32_t>& members, const std::string& name) override;
  void run(const Call& call) override;
  bool abort(const Error& error) noexcept override;
  void look() override;
  Fault& fault() override { return fault_; }
  void leave() noexcept override {}
  int64_t bytes() const override { return staging_.bytes(); }
  int64_t wire_bytes() const override { return link_->sent_bytes(); }

 private:
  const std::shared_ptr<Link> link_;
  const int32_t world_size_;
  const double timeout_seconds_;
  Fault fault_;
  Staging staging_;
  PeerCollectives collectives_;
  std::mutex groups_mutex_;
  std::vector<std::unique_ptr<PeerGroup>> groups_;
  std::map<uint64_t, uint64_t> made_;
};

/// The Comm of one local rank over `link`.
std::shared_ptr<Comm> make_peer_comm(std::shared_ptr<Link> link, int32_t world_size);

}  // namespace hawser::comm
