// The clusters in the library. The build embeds their texts, clusters/*.json.
#include "engine/cluster/cluster.h"

#include "engine/config/embedded_texts.h"

namespace hawser::cluster {

extern const config::EmbeddedText kClusters[];
extern const size_t kClusterCount;

namespace {

config::EmbeddedTexts clusters() { return {"cluster", kClusters, kClusterCount}; }

}  // namespace

double DeviceRates::peak(DType type) const {
  const auto own = peak_flops.find(type);
  if (own != peak_flops.end()) return own->second;
  const auto f32 = peak_flops.find(DType::kF32);
  return f32 != peak_flops.end() ? f32->second : 0;
}

parallel::Topology Cluster::topology() const {
  parallel::Topology topology;
  topology.rings = device.kind == device::Kind::kCuda;
  topology.ring_sums = !stack.is_hawser();
  for (size_t l = 0; l + 1 < levels.size(); ++l) topology.blocks.push_back(levels[l].ranks);
  return topology;
}

std::vector<std::string> cluster_names() { return clusters().names(); }

std::string_view cluster_json(std::string_view name) { return clusters().at(name); }

Cluster cluster_of(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first == std::string_view::npos || text[first] == '{' || text[first] == '[' ||
                       text.find('\n') != std::string_view::npos;
  return read_cluster(is_json ? text : cluster_json(text));
}

}  // namespace hawser::cluster
