// Creates an engine from a config and the options of the command line.
#include "bindings/cli/ranks.h"

#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bindings/cli/load_config.h"
#include "bindings/cli/output.h"
#include "bindings/cli/parse_json.h"
#include "bindings/cli/reference_watch.h"

namespace hawser::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEnvironment = "env";

Comm connect(const RankOptions& options, const std::string& job) {
  const auto text = [](const std::string& word) { return word.empty() ? nullptr : word.c_str(); };
  allow_descriptors();
  hws_comm_address address{};
  address.struct_size = sizeof address;
  address.host = text(options.host);
  address.network_interface = text(options.network_interface);
  address.silence_seconds = options.dead_after;
  address.job = job.c_str();
  address.secret_file = text(options.secret_file);
  if (options.secret) options.secret->lend_to(&address);
  address.trust_network = options.trust_network ? 1 : 0;
  address.without_shared_memory = options.without_shared_memory ? 1 : 0;
  address.timeout_seconds = options.meet_seconds;
  if (options.comm == kEnvironment) return make<Comm>(hws_comm_create_env, &address);
  address.rank = options.rank;
  address.world_size = options.world;
  address.address = options.comm.c_str();
  return make<Comm>(hws_comm_create_address, &address);
}

/// Divides this machine's threads among its processes, as one process divides them among its ranks.
void share_threads(hws_config* config, int32_t processes) {
  const ordered_json resolved = resolved_tree(config), set = resolved.value("cpu", ordered_json::object());
  int64_t threads = set.contains("threads") && set["threads"].is_number() ? set["threads"].get<int64_t>() : 0;
  if (threads == 0) threads = parse_json(text_of(hws_device_list)).at(0).at("threads").get<int64_t>();
  check(hws_config_set(config, "/cpu/threads",
                       std::to_string(std::max<int64_t>(1, threads / processes)).c_str()));
}

Engine engine_over(const hws_config* config, const Comm& comm, uint32_t flags) {
  return make<Engine>(hws_engine_create_ranks, config, static_cast<const hws_comm*>(comm.get()), flags);
}

}  // namespace

void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

RankOptions with_environment(RankOptions options) {
  if (options.comm != kEnvironment) return options;
  if (options.rank >= 0 || options.world > 0) {
    refuse("--comm env reads rank and world from the launcher's variables; leave --rank and --world out");
  }
  const auto found = parse_json(text_of(hws_comm_read_env));
  options.rank = found.at("rank").get<int32_t>();
  options.world = found.at("world_size").get<int32_t>();
  if (options.processes_here == 0 && found.at("local_world_size").is_number()) {
    options.processes_here = found.at("local_world_size").get<int32_t>();
  }
  return options;
}

int64_t ranks_of(const hws_config* config) {
  const ordered_json resolved = resolved_tree(config);
  int64_t ranks = 1;
  if (!resolved.contains("mesh")) return ranks;
  for (const auto& [axis, degree] : resolved["mesh"].items()) {
    if (degree.is_number() && axis != "ep") ranks *= degree.get<int64_t>();  // ep adds none
  }
  return ranks;
}

void check_ranks(const RankOptions& options, const hws_config* config) {
  if (options.comm.empty()) {
    if (options.rank >= 0 || options.world > 0 || !options.host.empty() ||
        !options.network_interface.empty() || !options.secret_file.empty() || options.trust_network ||
        options.without_shared_memory || options.dead_after > 0) {
      refuse(
          "--rank, --world, --host, --interface, --secret-file, --trust-network, --without-shared-memory and "
          "--dead-after need --comm HOST:PORT, where rank 0 listens, or --comm env");
    }
    return;
  }
  if (options.rank < 0 || options.world < 1)
    refuse("--comm needs --rank R and --world N: rank R of N, counted from 0");
  if (options.rank >= options.world) {
    refuse("--rank " + std::to_string(options.rank) + " of --world " + std::to_string(options.world) +
           ": ranks are numbered from 0 to " + std::to_string(options.world - 1));
  }
  const int64_t ranks = ranks_of(config);
  if (ranks != options.world) {
    refuse("the config's mesh has " + std::to_string(ranks) + " ranks, but the job has " +
           std::to_string(options.world) + " processes; set the sizes in /mesh so that their product is " +
           std::to_string(options.world) + ", such as --set /mesh/dp_shard=" + std::to_string(options.world) +
           ", or start " + std::to_string(ranks));
  }
}

Engine make_engine(const hws_config* config, uint32_t flags, const RankOptions& options, bool quiet) {
  ReferenceWatch watch(!quiet && leads(options));
  if (options.comm.empty()) {
    const int64_t ranks = ranks_of(config);
    if (ranks == 1) return watch.run([&] { return make<Engine>(hws_engine_create, config, flags); });
    const Comm comm =
        make<Comm>(hws_comm_create_local, static_cast<int32_t>(std::min<int64_t>(ranks, INT32_MAX)));
    return watch.run([&] { return engine_over(config, comm, flags); });
  }
  check_ranks(options, config);
  const Config mine = make<Config>(hws_config_clone, config);
  if (options.processes_here > 1) share_threads(mine.get(), options.processes_here);
  // The job's name leaves the config out, because the engines compare configs themselves. Their error on
  // every rank names the field that differs.
  std::string job = "hawser";
  if (options.meeting > 0) job += " meeting " + std::to_string(options.meeting);
  const Comm comm = connect(options, job);
  return watch.run([&] { return engine_over(mine.get(), comm, flags); });
}

int run_explain_environment(bool json) {
  const auto found = parse_json(text_of(hws_comm_read_env));
  if (json) {
    output().line(found.dump(2));
    return kExitOk;
  }
  for (const auto& [name, value] : found.items()) {
    if (name == "read") continue;
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    output().print("%-18s%s\n", name.c_str(), text.empty() ? "-" : text.c_str());
  }
  for (const auto& variable : found.at("read")) {
    output().print("  read %s=%s\n", variable.at("name").get<std::string>().c_str(),
                   variable.at("value").get<std::string>().c_str());
  }
  return kExitOk;
}

}  // namespace hawser::cli
