// The same cases over TCP.
#include "tests/comm/gloo_worlds.h"

namespace hawser::testing {

const std::vector<WorldKind>& world_kinds() {
  static const std::vector<WorldKind> kinds = {{"gloo", gloo_world, {1, 2, 3, 4}}};
  return kinds;
}

}  // namespace hawser::testing
