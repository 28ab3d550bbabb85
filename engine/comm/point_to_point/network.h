// Network: what gives the lanes of a rank connections of their own. The host program's transport has none:
// its functions are called by one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/comm/point_to_point/link.h"

namespace hawser::comm {

class Network {
 public:
  virtual ~Network() = default;
  /// The connections of the lane of this name, none at first; the same for the same name. Ends before the
  /// Network.
  virtual std::shared_ptr<Link> lane(const std::string& name) = 0;
  /// From now until connect others reach this rank at the address that this returns.
  virtual std::string listen() = 0;
  /// Connects the lane with those of `members` (world ranks) with which it is not connected yet; they listen
  /// at `addresses`. All members call it.
  virtual void connect(const std::string& lane, const std::vector<int32_t>& members,
                       const std::vector<std::string>& addresses, double timeout_seconds) = 0;
};

}  // namespace hawser::comm
