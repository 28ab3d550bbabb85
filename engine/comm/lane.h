// Lane: an order of calls. A rank runs the calls of a lane one after the other, in the order of issue. Lanes
// do not wait for each other, so a send without a receiver yet delays only its own lane. Between threads and
// over TCP each lane has its own thread (unless its calls run at once), and over TCP its own sockets. All
// lanes of a rank fail together: an error in a call breaks the comm.
//
// The host program's transport is called by one thread, so there all lanes are one (RankComm::has_lanes), and
// calls run in the order of issue across lanes. Ranks must then issue calls in an order in which no call
// waits for a later one. A pipeline's plan must issue in the order in which its simulator completes calls.
#pragma once

#include <string>

namespace hawser::comm {

struct Lane {
  std::string name = "main";
  /// Whether its groups reduce. For ranks that are processes this costs process_transport_bytes per such
  /// lane.
  bool sums = true;
  /// For each call, from the moment its turn comes; 0: CommOptions::timeout_seconds.
  double timeout_seconds = 0;
  /// Its calls run on the thread that issues them and are done when issued: for calls that the issuer would
  /// wait for at once. Ignored where lanes are not independent.
  bool at_once = false;
};

}  // namespace hawser::comm
