// Address comm: connects ranks that are processes, on one or several nodes, over TCP. They find each other at
// an address where rank 0 listens, and prove that they belong to one job. Pairs connect when a group that
// needs them is created (link_topology.h). Ranks listen only during the rendezvous and while a group
// connects.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/comm/comm.h"
#include "engine/comm/identity/secret.h"

namespace hawser::comm {

struct AddressOptions {
  std::string address;  ///< "host:port" where rank 0 listens and all other ranks connect
  int32_t rank = 0, world_size = 1;
  /// This rank's address for peers; "": the address from which this machine reaches rank 0.
  std::string host;
  std::string interface;        ///< this rank's network interface, instead of `host`
  double timeout_seconds = 60;  ///< time limit for all ranks to arrive
  /// Time without a heartbeat after which a process counts as stopped or cut off; all ranks use rank 0's
  /// value.
  double silence_seconds = 10;
  std::string job;                       ///< must be equal on all ranks: a job's name, a hash of its config
  std::shared_ptr<const Secret> secret;  ///< nullptr: none
  bool trust_network = false;            ///< allow addresses other than the loopback without a secret
  bool shares_memory = true;  ///< share memory with ranks of the same host; false: connect to them over TCP
};

/// Creates a Comm of one local rank, after all ranks have arrived. Throws on every rank
///   kInvalidArgument      a bad address, a rank outside the world, world sizes or jobs that differ, a rank
///                         that two processes have
///   kPermission           a rank that does not know the secret (on that rank alone: the others wait for the
///                         right one)
///   kFailedPrecondition   an address that is not the loopback, without secret or trust_network; fewer
///                         descriptors than the world's group needs (descriptors.h)
///   kTimeout              ranks that did not arrive in time (named)
///   kUnavailable          an address on which it cannot listen; a process that died meanwhile (named)
/// While connected, if a process dies, falls silent or aborts, rank 0 notifies all other ranks.
std::shared_ptr<Comm> make_address(const AddressOptions& options);

}  // namespace hawser::comm
