// From a mesh and a few words of the command line to an engine.
#include "bindings/cli/ranks.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/cli/load_config.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

Comm connect(const RankOptions& options) {
  const auto text = [](const std::string& word) { return word.empty() ? nullptr : word.c_str(); };
  hws_comm_address address{};
  address.struct_size = sizeof address;
  address.rank = options.rank;
  address.world_size = options.world;
  address.address = options.comm.c_str();
  address.host = text(options.host);
  address.network_interface = text(options.network_interface);
  return make<Comm>(hws_comm_create_address, &address);
}

/// Processes of one machine share its threads as ranks of one process do.
void share_threads(hws_config* config, int32_t processes) {
  const ordered_json resolved = resolved_tree(config), set = resolved.value("cpu", ordered_json::object());
  int64_t threads = set.contains("threads") && set["threads"].is_number() ? set["threads"].get<int64_t>() : 0;
  if (threads == 0)
    threads = ordered_json::parse(text_of(hws_device_list)).at(0).at("threads").get<int64_t>();
  check(hws_config_set(config, "/cpu/threads",
                       std::to_string(std::max<int64_t>(1, threads / processes)).c_str()));
}

}  // namespace

int64_t ranks_of(const hws_config* config) {
  const ordered_json resolved = resolved_tree(config);
  int64_t ranks = 1;
  if (!resolved.contains("mesh")) return ranks;
  for (const auto& degree : resolved["mesh"]) {
    if (degree.is_number()) ranks *= degree.get<int64_t>();
  }
  return ranks;
}

void check_ranks(const RankOptions& options, const hws_config* config) {
  if (options.comm.empty()) {
    if (options.rank >= 0 || options.world > 0 || !options.host.empty() ||
        !options.network_interface.empty()) {
      refuse("--rank, --world, --host and --interface go with --comm HOST:PORT, where rank 0 listens");
    }
    return;
  }
  if (options.rank < 0 || options.world < 1)
    refuse("--comm needs --rank R and --world N: rank R of N, from 0 on");
  if (options.rank >= options.world) {
    refuse("--rank " + std::to_string(options.rank) + " of --world " + std::to_string(options.world) +
           ": ranks are numbered from 0 to " + std::to_string(options.world - 1));
  }
  const int64_t ranks = ranks_of(config);
  if (ranks != options.world) {
    refuse("the config's mesh has " + std::to_string(ranks) + " ranks, but the job has " +
           std::to_string(options.world) + " processes; set the degrees of /mesh so that their product is " +
           std::to_string(options.world) + ", such as --set /mesh/dp_shard=" + std::to_string(options.world) +
           ", or start " + std::to_string(ranks));
  }
}

Engine make_engine(const hws_config* config, uint32_t flags, const RankOptions& options) {
  if (options.comm.empty()) {
    const int64_t ranks = ranks_of(config);
    if (ranks == 1) return make<Engine>(hws_engine_create, config, flags);
    const Comm comm =
        make<Comm>(hws_comm_create_local, static_cast<int32_t>(std::min<int64_t>(ranks, INT32_MAX)));
    return make<Engine>(hws_engine_create_ranks, config, static_cast<const hws_comm*>(comm.get()), flags);
  }
  check_ranks(options, config);
  const Config mine = make<Config>(hws_config_clone, config);
  if (options.processes_here > 1) share_threads(mine.get(), options.processes_here);
  const Comm comm = connect(options);
  return make<Engine>(hws_engine_create_ranks, static_cast<const hws_config*>(mine.get()),
                      static_cast<const hws_comm*>(comm.get()), flags);
}

}  // namespace hawser::cli
