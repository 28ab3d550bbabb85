// ExpertRound and ExpertHost: the limits of a round of expert parallelism, and the host memory of its counts.
#include <algorithm>
#include <cmath>

#include "engine/parallel/expert_parallel.h"

namespace hawser::parallel {

ExpertRound ExpertRound::of(int64_t rows, int64_t top_k, int64_t experts, int64_t ranks, double factor,
                            bool single) {
  const int64_t most = rows * std::min(top_k, experts / ranks);
  const double share = factor * static_cast<double>(top_k * rows) / static_cast<double>(ranks);
  const auto wanted = static_cast<int64_t>(std::ceil(std::min(share, static_cast<double>(most))));
  const int64_t summed = std::max<int64_t>(1, wanted);
  return {single ? most : summed, single || wanted >= most, summed, ranks};
}

int64_t ExpertHost::bytes(int64_t calls, int64_t ranks, int64_t experts) {
  const int64_t bytes = (calls * ranks * experts + experts + ranks) * int64_t{sizeof(int32_t)};
  return (bytes + 63) / 64 * 64;
}

ExpertHost ExpertHost::at(device::HostLink* link, char* memory, int64_t calls, int64_t ranks,
                          int64_t experts) {
  auto* const ends = reinterpret_cast<int32_t*>(memory);
  return {link, ends, ends + calls * ranks * experts};
}

}  // namespace hawser::parallel
