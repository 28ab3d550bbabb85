#include "engine/comm/launch/environment.h"

#include <charconv>
#include <optional>

#include "engine/base/error.h"

namespace hawser::comm {
namespace {

/// Looks up variables and records those that were set.
class Reader {
 public:
  Reader(const Lookup& lookup, LaunchEnvironment& found) : lookup_(lookup), found_(found) {}

  bool has(const char* name) const {
    const char* value = lookup_(name);
    return value != nullptr && *value != '\0';
  }
  /// Returns "" if the variable is not set.
  std::string text(const char* name) {
    if (!has(name)) return "";
    const std::string value = lookup_(name);
    found_.read.push_back({name, value});
    return value;
  }
  std::optional<int32_t> number(const char* name) {
    if (!has(name)) return {};
    const std::string value = text(name);
    int32_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < 0) {
      fail(Code::kInvalidArgument,
           "the environment variable {} is \"{}\"; it must be an integer of at least 0", name, value);
    }
    return result;
  }
  int32_t need(const char* name) {
    const std::optional<int32_t> value = number(name);
    if (!value) {
      fail(Code::kFailedPrecondition,
           "the environment of {} has no {}; set HAWSER_RANK, HAWSER_WORLD_SIZE and "
           "HAWSER_ADDRESS, or start the ranks with another launcher",
           found_.launcher, name);
    }
    return *value;
  }

 private:
  const Lookup& lookup_;
  LaunchEnvironment& found_;
};

void set_address(LaunchEnvironment& found, const std::string& host, int32_t port) {
  if (host.empty()) return;
  const bool v6 = host.find(':') != std::string::npos && host.front() != '[';
  found.address = fmt::format("{}:{}", v6 ? "[" + host + "]" : host, port);
}

/// torchrun's agent itself listens at MASTER_PORT, so the port is derived from the job's name instead.
void read_torchrun(Reader& read, LaunchEnvironment& found) {
  found.rank = read.need("RANK");
  found.world_size = read.need("WORLD_SIZE");
  found.local_world_size = read.number("LOCAL_WORLD_SIZE").value_or(0);
  const std::string host = read.text("MASTER_ADDR");
  const int32_t port = read.need("MASTER_PORT");
  const std::string run = read.text("TORCHELASTIC_RUN_ID");
  found.job =
      fmt::format("torchrun {} {} {}", run, port, read.number("TORCHELASTIC_RESTART_COUNT").value_or(0));
  const bool agent = read.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  set_address(found, host, agent ? port_of_job(found.job) : port);
}

/// Open MPI does not provide the address of rank 0; on a single machine that does not matter.
void read_openmpi(Reader& read, LaunchEnvironment& found) {
  found.rank = read.need("OMPI_COMM_WORLD_RANK");
  found.world_size = read.need("OMPI_COMM_WORLD_SIZE");
  found.local_world_size = read.number("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(0);
  std::string job = read.text("PMIX_NAMESPACE");
  if (job.empty()) job = read.text("OMPI_MCA_orte_hnp_uri");
  found.job = "openmpi " + job;
}

void read_slurm(Reader& read, LaunchEnvironment& found) {
  found.rank = read.need("SLURM_PROCID");
  const std::optional<int32_t> step_tasks = read.number("SLURM_STEP_NUM_TASKS");
  found.world_size = step_tasks ? *step_tasks : read.need("SLURM_NTASKS");
  found.job = fmt::format("slurm {}.{}", read.text("SLURM_JOB_ID"), read.text("SLURM_STEP_ID"));
  std::string nodes = read.text("SLURM_STEP_NODELIST"), tasks = read.text("SLURM_STEP_TASKS_PER_NODE");
  if (nodes.empty()) nodes = read.text("SLURM_JOB_NODELIST");
  if (tasks.empty()) tasks = read.text("SLURM_TASKS_PER_NODE");
  found.local_world_size = slurm_tasks_of_node(tasks, read.number("SLURM_NODEID").value_or(0));
  const std::string reserved = read.text("SLURM_STEP_RESV_PORTS");  // srun --resv-ports: "12000-12003"
  int32_t port = 0;
  std::from_chars(reserved.data(), reserved.data() + reserved.size(), port);
  set_address(found, first_slurm_host(nodes), port > 0 ? port : port_of_job(found.job));
}

void read_pmix(Reader& read, LaunchEnvironment& found) {
  found.rank = read.need("PMIX_RANK");
  found.job = "pmix " + read.text("PMIX_NAMESPACE");
  // PMIx itself provides the size only through its library.
  found.world_size = read.number("PMI_SIZE").value_or(0);
}

void read_pmi(Reader& read, LaunchEnvironment& found) {
  found.rank = read.need("PMI_RANK");
  found.world_size = read.need("PMI_SIZE");
  found.local_world_size = read.number("MPI_LOCALNRANKS").value_or(0);
  const std::string job = read.text("PMI_JOBID");
  found.job = "pmi " + (job.empty() ? read.text("PMI_ID_SPACE") : job);
}

void read_kubernetes(Reader& read, LaunchEnvironment& found) {
  found.rank = read.need("JOB_COMPLETION_INDEX");
  found.world_size = read.number("WORLD_SIZE").value_or(0);
  found.job = "kubernetes";
}

void read_own(Reader& read, LaunchEnvironment& found) {
  found.rank = read.need("HAWSER_RANK");
  found.world_size = 0;
}

struct Launcher {
  const char* name;
  const char* sign;    ///< this variable exists only under this launcher
  const char* beside;  ///< and this variable must exist too
  void (*read)(Reader&, LaunchEnvironment&);
};

/// The innermost launcher comes first: torchrun and mpirun are often started by srun, and all of them by
/// Kubernetes. A batch script of Slurm has SLURM_PROCID too, but only srun's tasks have a step.
constexpr Launcher kLaunchers[] = {
    {"hawser", "HAWSER_RANK", "HAWSER_RANK", read_own},
    {"torchrun", "RANK", "WORLD_SIZE", read_torchrun},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", read_openmpi},
    {"slurm", "SLURM_PROCID", "SLURM_STEP_ID", read_slurm},
    {"pmix", "PMIX_RANK", "PMIX_NAMESPACE", read_pmix},
    {"pmi", "PMI_RANK", "PMI_SIZE", read_pmi},
    {"kubernetes", "JOB_COMPLETION_INDEX", "JOB_COMPLETION_INDEX", read_kubernetes},
};

/// The user's variables override the launcher's.
void read_overrides(Reader& read, LaunchEnvironment& found) {
  if (const auto size = read.number("HAWSER_WORLD_SIZE")) found.world_size = *size;
  if (const auto size = read.number("HAWSER_LOCAL_WORLD_SIZE")) found.local_world_size = *size;
  if (const std::string job = read.text("HAWSER_JOB"); !job.empty()) found.job = job;
  const bool here = found.world_size > 0 && found.local_world_size == found.world_size;
  const auto colon = found.address.rfind(':');
  std::string host = here ? "127.0.0.1" : found.address.substr(0, colon == std::string::npos ? 0 : colon);
  int32_t port = port_of_job(found.job);
  if (colon != std::string::npos) port = std::stoi(found.address.substr(colon + 1));
  if (found.address.empty() && read.has("MASTER_ADDR")) {
    host = read.text("MASTER_ADDR");
    port = read.number("MASTER_PORT").value_or(port);
  }
  if (const auto own_port = read.number("HAWSER_PORT")) port = *own_port;
  found.address = host.empty() ? "" : fmt::format("{}:{}", host, port);
  if (const std::string address = read.text("HAWSER_ADDRESS"); !address.empty()) found.address = address;
  found.host = read.text("HAWSER_HOST");
  found.interface = read.text("HAWSER_INTERFACE");
  found.secret_file = read.text("HAWSER_SECRET_FILE");
  found.trust_network = read.number("HAWSER_TRUST_NETWORK").value_or(0) != 0;
  found.shares_memory = read.number("HAWSER_SHARED_MEMORY").value_or(1) != 0;
}

void check(const LaunchEnvironment& found) {
  if (found.world_size < 1) {
    fail(Code::kFailedPrecondition,
         "the environment of {} does not say how many ranks there are; set "
         "HAWSER_WORLD_SIZE to their number",
         found.launcher);
  }
  if (found.rank >= found.world_size) {
    fail(Code::kInvalidArgument,
         "the environment of {} says that this is rank {} of {}; ranks are numbered from 0", found.launcher,
         found.rank, found.world_size);
  }
  if (found.address.empty()) {
    fail(Code::kFailedPrecondition,
         "the environment of {} does not have the address of rank 0; set HAWSER_ADDRESS to host:port of rank "
         "0's machine on all ranks",
         found.launcher);
  }
}

/// Reports a variable whose launcher needs another one that is missing, because that is more informative than
/// a list of all launchers.
[[noreturn]] void fail_without_launcher(const Reader& read) {
  for (const Launcher& launcher : kLaunchers) {
    if (!read.has(launcher.sign) || read.has(launcher.beside)) continue;
    fail(Code::kFailedPrecondition,
         "the environment has {} but no {}, which {} also sets; start the ranks with a launcher, set "
         "HAWSER_RANK, HAWSER_WORLD_SIZE and HAWSER_ADDRESS, or give rank, world and address",
         launcher.sign, launcher.beside, launcher.name);
  }
  fail(
      Code::kFailedPrecondition,
      "no launcher started this process: none of HAWSER_RANK, RANK and WORLD_SIZE (torchrun), "
      "OMPI_COMM_WORLD_RANK (mpirun), SLURM_PROCID and SLURM_STEP_ID (srun), PMIX_RANK, PMI_RANK and "
      "JOB_COMPLETION_INDEX (Kubernetes) is set; start it with one of them, or give rank, world and address");
}

}  // namespace

LaunchEnvironment read_launch_environment(const Lookup& lookup) {
  LaunchEnvironment found;
  Reader read(lookup, found);
  for (const Launcher& launcher : kLaunchers) {
    if (!read.has(launcher.sign) || !read.has(launcher.beside)) continue;
    found.launcher = launcher.name;
    launcher.read(read, found);
    read_overrides(read, found);
    check(found);
    return found;
  }
  fail_without_launcher(read);
}

std::string first_slurm_host(std::string_view list) {
  std::string host;
  bool inside = false, first = true;
  for (const char c : list) {
    if (c == '[' || c == ']') {
      inside = c == '[';
      first = true;
    } else if (inside) {
      first = first && c != ',' && c != '-';
      if (first) host += c;
    } else if (c == ',') {
      break;
    } else {
      host += c;
    }
  }
  return host;
}

int32_t slurm_tasks_of_node(std::string_view list, int32_t node) {
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int32_t tasks = 0, nodes = 1;
    at = std::from_chars(at, end, tasks).ptr;
    if (end - at >= 2 && at[0] == '(' && at[1] == 'x') {
      at = std::from_chars(at + 2, end, nodes).ptr;
      if (at < end && *at == ')') ++at;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (at < end && *at != ',') return 0;
    ++at;
  }
  return 0;
}

int32_t port_of_job(std::string_view job) {
  uint64_t mark = 0xcbf29ce484222325ull;  // FNV-1a
  for (const char c : job) mark = (mark ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
  return static_cast<int32_t>(20480 + (mark ^ mark >> 32) % 12288);
}

}  // namespace hawser::comm
