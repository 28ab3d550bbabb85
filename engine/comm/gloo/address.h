// Ranks that are processes, on one host or many, over TCP: they find each other at an address where rank 0
// listens, and talk through Gloo, an optional library that is opened only here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/comm/comm.h"

namespace hawser::comm {

struct AddressOptions {
  std::string address;  ///< "host:port" where rank 0 listens and all others look for it
  int32_t rank = 0, world_size = 1;
  std::string host;       ///< own address that peers connect to; "": the host of `address` if rank 0 or local
  std::string interface;  ///< own network interface, instead of `host`
  double timeout_seconds = 60;  ///< for all ranks to arrive and connect
  std::string module_folder;    ///< where libhawser_gloo.so lies; "": hawser-0/ beside this library
};

/// Waits for all ranks and connects them. A Comm of one local rank. Throws on every rank
///   kInvalidArgument  a bad address, a rank outside the world, world sizes that differ, a rank taken twice
///   kTimeout          ranks did not arrive in time (named)
///   kUnavailable      Gloo or its module is not there (names the paths tried) or does not fit; an address
///   that
///                     cannot be listened on; a process that died meanwhile (named)
/// While connected, a process that dies or aborts is told to all others at once through rank 0.
std::shared_ptr<Comm> make_address(const AddressOptions& options);

}  // namespace hawser::comm
