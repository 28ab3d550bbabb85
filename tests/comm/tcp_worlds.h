// TCP worlds: worlds of ranks on this machine with a rendezvous over TCP. Ranks are connected by sockets, or
// share memory.
#pragma once

#include "engine/comm/tcp/address.h"
#include "tests/comm/worlds.h"

namespace hawser::testing {

/// Returns "127.0.0.1:port" with a port that was just free.
std::string free_address();

/// Returns the options of rank `rank` of `world` at `address`, with this build's identity module. Ranks share
/// memory.
comm::AddressOptions address_options(const std::string& address, int32_t rank, int32_t world);

/// Creates all ranks as threads of this process, each with its own connections, which are sockets.
std::vector<std::shared_ptr<comm::Comm>> tcp_world(int32_t ranks);
std::vector<std::shared_ptr<comm::Comm>> tcp_world_at(const std::string& address, int32_t ranks,
                                                      bool shares_memory = false);
/// As tcp_world, but the connections are memory that two ranks share.
std::vector<std::shared_ptr<comm::Comm>> shared_world(int32_t ranks);

}  // namespace hawser::testing
