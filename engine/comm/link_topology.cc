#include "engine/comm/link_topology.h"

#include <bit>

#include "engine/base/divisor.h"

namespace hawser::comm {
namespace {

bool power_of_two_apart(int32_t a, int32_t b, int32_t size) {
  const auto ahead = static_cast<uint32_t>((a - b + size) % size);
  return std::has_single_bit(ahead) || std::has_single_bit(static_cast<uint32_t>(size) - ahead);
}

}  // namespace

std::vector<int32_t> partners(LinkTopology pairs, int32_t size, int32_t member) {
  std::vector<int32_t> others;
  for (int32_t m = 0; m < size; ++m) {
    if (m != member && (pairs == LinkTopology::kAll || power_of_two_apart(m, member, size)))
      others.push_back(m);
  }
  return others;
}

int32_t row_of_grid(int32_t members) {
  constexpr int32_t kMostInOneRow = 8;
  const auto root = static_cast<int32_t>(divisor_at_root(members));
  return members <= kMostInOneRow || root == 1 ? members : root;
}

}  // namespace hawser::comm
