// Connection: the comm of a world and the endpoints of the ranks in this process. It outlives everything that
// communicates through it, so an engine whose creation fails can still abort the other processes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/config/resolved_config.h"

namespace hawser::train {

class Connection {
 public:
  /// `comm` is null for a world of one rank.
  explicit Connection(std::shared_ptr<comm::Comm> comm) : comm_(std::move(comm)) {}

  /// Throws kConfigInvalid unless the mesh has as many ranks as the world. A world of one has no endpoints.
  void connect(const config::ResolvedConfig& config);
  /// Aborts the comm, so that no other process waits for this one.
  void abort(const Error& error) noexcept {
    if (comm_) comm_->abort(error);
  }

  int64_t world() const { return comm_ ? comm_->world_size() : 1; }
  int32_t ranks_here() const { return comm_ ? static_cast<int32_t>(comm_->local_ranks().size()) : 1; }
  /// Indexed by rank of this process.
  const std::vector<std::unique_ptr<comm::RankComm>>& ends() const { return ends_; }

 private:
  std::shared_ptr<comm::Comm> comm_;
  std::vector<std::unique_ptr<comm::RankComm>> ends_;
};

}  // namespace hawser::train
