// The clusters in the library. The build embeds their texts, clusters/*.json.
#include "engine/cluster/cluster.h"

#include <fmt/format.h>

#include "engine/base/error.h"
#include "engine/config/problems.h"
#include "engine/config/suggest.h"

namespace hawser::cluster {

struct EmbeddedCluster {
  const char* name;
  const char* text;
};
extern const EmbeddedCluster kClusters[];  // sorted by name
extern const size_t kClusterCount;

double DeviceRates::peak(DType type) const {
  const auto own = peak_flops.find(type);
  if (own != peak_flops.end()) return own->second;
  const auto f32 = peak_flops.find(DType::kF32);
  return f32 != peak_flops.end() ? f32->second : 0;
}

parallel::Topology Cluster::topology() const {
  parallel::Topology topology;
  topology.rings = device.kind == device::Kind::kCuda;
  for (size_t l = 0; l + 1 < levels.size(); ++l) topology.blocks.push_back(levels[l].ranks);
  return topology;
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kClusterCount; ++i) names.emplace_back(kClusters[i].name);
  return names;
}

std::string_view cluster_json(std::string_view name) {
  for (size_t i = 0; i < kClusterCount; ++i)
    if (name == kClusters[i].name) return kClusters[i].text;
  const std::string near = config::nearest_name(name, cluster_names());
  fail(Code::kNotFound, "there is no cluster {}; {}", config::quote(name),
       near.empty() ? fmt::format("there are: {}", fmt::join(cluster_names(), ", "))
                    : fmt::format("did you mean \"{}\"?", near));
}

Cluster cluster_of(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first == std::string_view::npos || text[first] == '{' || text[first] == '[' ||
                       text.find('\n') != std::string_view::npos;
  return read_cluster(is_json ? text : cluster_json(text));
}

}  // namespace hawser::cluster
