// Ranks that are processes, on one host or many, over TCP: they find each other at an address where rank 0
// listens, and show that they belong to one job. Pairs connect when a group that needs them is made (pairs.h).
// Nothing listens but while all meet, and while a group connects.
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
  /// Own address that peers connect to; "": the one from which this machine reaches rank 0.
  std::string host;
  std::string interface;        ///< own network interface, instead of `host`
  double timeout_seconds = 60;  ///< for all ranks to arrive
  /// Without a sign of life until a process counts as stopped or cut off; rank 0's counts for all.
  double silence_seconds = 10;
  std::string job;  ///< what all ranks were told alike: a job's name, a mark of its config
  std::shared_ptr<const Secret> secret;  ///< nullptr: none
  bool trust_network = false;            ///< go on without a secret on addresses that are not the loopback
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
/// While connected, a process that dies, falls silent or aborts is told to all others through rank 0.
std::shared_ptr<Comm> make_address(const AddressOptions& options);

}  // namespace hawser::comm
