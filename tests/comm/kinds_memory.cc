// Memory kinds: the transports that need no network.
#include "tests/comm/worlds.h"

namespace hawser::testing {

const std::vector<WorldKind>& world_kinds() {
  static const std::vector<WorldKind> kinds = {{"local", local_world, {1, 2, 3, 4, 5, 6, 7, 8}},
                                               {"memory", memory_world, {1, 2, 3, 4, 5, 6, 8, 12, 16}},
                                               {"synchronous", synchronous_world, {2, 3, 5, 6, 9}}};
  return kinds;
}

}  // namespace hawser::testing
