// The same cases over TCP.
#include "tests/comm/gloo_worlds.h"

namespace hawser::testing {

const std::vector<WorldKind>& world_kinds() {
  static const std::vector<WorldKind> kinds = {{"gloo", gloo_world}};
  return kinds;
}

const std::vector<int32_t>& world_sizes() {
  static const std::vector<int32_t> sizes = {1, 2, 3, 4};
  return sizes;
}

}  // namespace hawser::testing
