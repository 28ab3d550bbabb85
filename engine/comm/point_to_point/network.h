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
  /// Connects the lane with those of `partners` (world ranks, ascending) with which it is not connected yet.
  /// Of a pair, both call it, with the same `group`. `name` goes into messages.
  virtual void connect(const std::string& lane, const std::vector<int32_t>& partners, uint64_t group,
                       const std::string& name, double timeout_seconds) = 0;
};

}  // namespace hawser::comm
