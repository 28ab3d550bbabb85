// Lane: an order of calls. A rank runs the calls of a lane one after the other, in the order of issue. Lanes
// do not wait for each other, so a send whose receiver is late delays only its own lane. Between threads and
// over TCP each lane has its own thread (unless it is at_once), and over TCP its own sockets. All lanes of a
// rank fail together: an error in a call breaks the comm.
//
// One thread calls the host program's transport, so with it all lanes are one (RankComm::has_lanes), and
// calls run in the order of issue across lanes. Ranks must then issue calls in an order in which no call
// waits for a later one. A pipeline's plan must issue calls in the order in which its simulator completes
// them.
#pragma once

#include <string>

namespace hawser::comm {

struct Lane {
  std::string name = "main";
  /// True if its groups reduce. For ranks that are processes, each such lane costs process_transport_bytes.
  bool sums = true;
  /// For each call, once it is the first of the lane; 0: CommOptions::timeout_seconds.
  double timeout_seconds = 0;
  /// Calls run on the thread that issues them and are done when issued, for calls that the issuer would wait
  /// for at once. Ignored if lanes are not independent.
  bool at_once = false;
};

}  // namespace hawser::comm
