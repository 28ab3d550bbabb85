// Lane: an order of calls. A rank carries out the calls of a lane one after the other, in the order in which
// they were issued; lanes do not wait for each other. So a send that nobody receives yet holds up its own lane
// and nothing else. Between threads and over TCP each lane has a thread of its own, over TCP sockets of its
// own, too. All lanes of a rank share one fate: what breaks a call breaks the comm.
//
// The host program's transport is called by one thread, so there all lanes are one (RankComm::has_lanes), and
// calls run in the order of issue across lanes. Ranks must then issue so that no call waits for one behind it.
// A pipeline's plan has to issue in the order in which its simulator completes calls: there every call's
// partner is at most as far behind, on all ranks alike.
#pragma once

#include <string>

namespace hawser::comm {

struct Lane {
  std::string name = "main";
  /// Whether its groups reduce. Over processes that takes process_transport_bytes more for each such lane.
  bool sums = true;
  /// Of each call, from the moment its turn comes; 0: CommOptions::timeout_seconds.
  double timeout_seconds = 0;
};

}  // namespace hawser::comm
