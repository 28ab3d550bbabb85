// Network: provides connections for the lanes of a rank. The host program's transport has no Network, because
// one thread calls its functions.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/comm/connections.h"
#include "engine/comm/point_to_point/link.h"

namespace hawser::comm {

class Network {
 public:
  virtual ~Network() = default;
  /// Returns the connections of the lane with this name, initially none; the same object for the same name.
  /// Destroy it before the Network.
  virtual std::shared_ptr<Link> lane(const std::string& name) = 0;
  /// Counts the connections to these ranks, by lane, that do not exist yet. Throws kFailedPrecondition if
  /// this process may not open them.
  virtual void expect(const std::map<std::string, std::set<int32_t>>& ranks_by_lane) = 0;
  /// Connects the lane with those of `partners` (world ranks, ascending) to which it is not connected yet.
  /// Both sides of a pair call it, with the same `group`. `name` appears in messages.
  virtual void connect(const std::string& lane, const std::vector<int32_t>& partners, uint64_t group,
                       const std::string& name, double timeout_seconds) = 0;
  /// Returns the connections so far.
  virtual const Connections& connections() const = 0;
};

}  // namespace hawser::comm
