// TCP kinds: runs the same cases over TCP, and over memory that ranks of one host share.
#include "tests/comm/tcp_worlds.h"

namespace hawser::testing {

const std::vector<WorldKind>& world_kinds() {
  static const std::vector<WorldKind> kinds = {{"tcp", tcp_world, {1, 2, 3, 4}},
                                               {"shared_memory", shared_world, {2, 3, 4}}};
  return kinds;
}

}  // namespace hawser::testing
