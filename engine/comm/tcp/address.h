// Ranks that are processes, on one host or many, over TCP. They find each other at an address where rank 0
// listens, and prove that they belong to one job. Pairs connect when a group that needs them is created
// (pairs.h). Ranks listen only during the rendezvous and while a group connects.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/comm/comm.h"
#include "engine/comm/identity/secret.h"

namespace hawser::comm {

struct AddressOptions {
  std::string address;  ///< "host:port" where rank 0 listens and all others look for it
  int32_t rank = 0, world_size = 1;
  /// This rank's address for peers; "": the one from which this machine reaches rank 0.
  std::string host;
  std::string interface;        ///< this rank's network interface, instead of `host`
  double timeout_seconds = 60;  ///< for all ranks to arrive
  /// Time without a heartbeat after which a process counts as stopped or cut off; rank 0's value is used by
  /// all.
  double silence_seconds = 10;
  std::string job;                       ///< must be equal on all ranks: a job's name, a hash of its config
  std::shared_ptr<const Secret> secret;  ///< nullptr: none
  bool trust_network = false;            ///< allow other addresses than the loopback without a secret
};

/// Waits for all ranks. A Comm of one local rank. Throws on every rank
///   kInvalidArgument      a bad address, a rank outside the world, world sizes or jobs that differ, a rank
///                         taken twice
///   kPermission           a rank that does not know the secret (on that rank alone: the others wait for the
///                         right one)
///   kFailedPrecondition   an address that is not the loopback, without secret or trust_network; fewer
///                         descriptors than the world's agreements need (descriptors.h)
///   kTimeout              ranks did not arrive in time (named)
///   kUnavailable          an address that cannot be listened on; a process that died meanwhile (named)
/// While connected, if a process dies, falls silent or aborts, all others learn of it through rank 0.
std::shared_ptr<Comm> make_address(const AddressOptions& options);

}  // namespace hawser::comm
