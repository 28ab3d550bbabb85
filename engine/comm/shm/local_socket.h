// Local sockets: Unix sockets between processes of one host, in Linux's abstract namespace, which has no
// files (unix(7)).
#pragma once

#include <string>

#include "engine/comm/rendezvous/socket.h"

namespace hawser::comm {

/// Returns an identifier of this host. It is equal for processes that can reach each other by a local socket:
/// those on one machine since its last boot, in one network namespace. Returns "" if it cannot be determined.
std::string this_host();

/// Listens under a random name, which is written to *name. Returns a closed socket if the system refuses.
Socket listen_here(std::string* name);
/// Connects to a listener of this host, without waiting. Returns a closed socket if that fails; `why` then
/// has the reason.
Socket connect_here(const std::string& name, std::string* why);

}  // namespace hawser::comm
