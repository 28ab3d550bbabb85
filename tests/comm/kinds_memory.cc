// The transports that need no network.
#include "tests/comm/worlds.h"

namespace hawser::testing {

const std::vector<WorldKind>& world_kinds() {
  static const std::vector<WorldKind> kinds = {
      {"local", local_world}, {"memory", memory_world}, {"synchronous", synchronous_world}};
  return kinds;
}

const std::vector<int32_t>& world_sizes() {
  static const std::vector<int32_t> sizes = {1, 2, 3, 4, 5, 6, 7, 8};
  return sizes;
}

}  // namespace hawser::testing
