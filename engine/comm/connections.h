// Connections: how a rank that is a process is connected to other ranks.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::comm {

/// The connections of a rank, in all lanes.
struct Connections {
  int64_t shared = 0;      ///< to ranks of the same host, through memory that both share
  int64_t sockets = 0;     ///< through sockets
  std::string not_shared;  ///< the first reason why a rank of the same host does not share memory; "": none
};

}  // namespace hawser::comm
