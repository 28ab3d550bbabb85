// Worlds over TCP on this machine.
#pragma once

#include "engine/comm/tcp/address.h"
#include "tests/comm/worlds.h"

namespace hawser::testing {

/// "127.0.0.1:port" with a port that was free a moment ago.
std::string free_address();

/// The options of rank `rank` of `world` at `address`, with the module of this build.
comm::AddressOptions address_options(const std::string& address, int32_t rank, int32_t world);

/// All ranks as threads of this process, each with its own connections.
std::vector<std::shared_ptr<comm::Comm>> tcp_world(int32_t ranks);
std::vector<std::shared_ptr<comm::Comm>> tcp_world_at(const std::string& address, int32_t ranks);

}  // namespace hawser::testing
