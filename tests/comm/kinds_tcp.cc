// TCP kind: runs the same cases over TCP.
#include "tests/comm/tcp_worlds.h"

namespace hawser::testing {

const std::vector<WorldKind>& world_kinds() {
  static const std::vector<WorldKind> kinds = {{"tcp", tcp_world, {1, 2, 3, 4}}};
  return kinds;
}

}  // namespace hawser::testing
