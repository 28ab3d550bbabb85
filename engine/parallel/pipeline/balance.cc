#include "engine/parallel/pipeline/balance.h"

#include <numeric>

namespace hawser::parallel::pipeline {
namespace {

/// True if the layers from `at` on fit into `chunks` chunks of cost `most` or less, with the head in the last
/// chunk.
bool fits(std::span<const double> layers, size_t at, double head, int64_t chunks, double most) {
  for (int64_t c = 0; c < chunks; ++c) {
    const bool last = c + 1 == chunks;
    double cost = (last ? head : 0) + layers[at++];
    while (at < layers.size() - static_cast<size_t>(chunks - 1 - c) && (last || cost + layers[at] <= most))
      cost += layers[at++];
    if (cost > most) return false;
  }
  return true;
}

/// Returns the least possible cost of the slowest chunk, found by bisection and never rounded down.
double least_cost(std::span<const double> layers, double embedding, double head, int64_t chunks) {
  std::vector<double> costs(layers.begin(), layers.end());
  costs[0] += embedding;
  double least = 0, most = std::accumulate(costs.begin(), costs.end(), head);
  for (int i = 0; i < 64; ++i) {
    const double middle = least + (most - least) / 2;
    (fits(costs, 0, head, chunks, middle) ? most : least) = middle;
  }
  return most;
}

}  // namespace

std::vector<int64_t> balance(std::span<const double> layers, double embedding, double head, int64_t chunks) {
  const double most = least_cost(layers, embedding, head, chunks);
  double left = std::accumulate(layers.begin(), layers.end(), embedding + head);
  std::vector<int64_t> counts;
  size_t at = 0;
  for (int64_t c = 0; c + 1 < chunks; ++c) {
    const double share = left / static_cast<double>(chunks - c);
    const size_t first = at, end = layers.size() - static_cast<size_t>(chunks - 1 - c);
    double cost = c == 0 ? embedding : 0;
    // The chunk takes at least one layer, then layers that bring it nearer to its share, and layers for which
    // the other chunks have no room.
    do cost += layers[at++];
    while (at < end && cost + layers[at] <= most &&
           (cost + layers[at] / 2 <= share || !fits(layers, at, head, chunks - 1 - c, most)));
    counts.push_back(static_cast<int64_t>(at - first));
    left -= cost;
  }
  counts.push_back(static_cast<int64_t>(layers.size() - at));
  return counts;
}

}  // namespace hawser::parallel::pipeline
