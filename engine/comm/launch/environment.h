// Launch environment: reads the environment variables that launchers set for their processes: torchrun, Open
// MPI, Slurm, PMIx, PMI (MPICH, Intel MPI) and indexed jobs of Kubernetes. Hawser's own variables (HAWSER_*)
// supply what a launcher does not set, and override what it sets.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::comm {

/// Returns the value of an environment variable, nullptr if it is not set.
using Lookup = std::function<const char*(const char* name)>;

struct LaunchEnvironment {
  struct Variable {
    std::string name, value;
  };
  std::string launcher;  ///< "torchrun", "openmpi", "slurm", "pmix", "pmi", "kubernetes", "hawser"
  std::string job;       ///< the same for all ranks of a job and different for other jobs; "": unknown
  std::string address;   ///< "host:port" where rank 0 listens
  int32_t rank = 0, world_size = 1;
  int32_t local_world_size = 0;  ///< ranks of the job on this machine; 0: unknown
  std::string host, interface, secret_file;
  bool trust_network = false, shares_memory = true;
  std::vector<Variable> read;  ///< all variables that were used, in order; none contains a secret
};

/// Reads the variables. Throws kFailedPrecondition if there is no launcher, or if a value is missing (with
/// the variable that provides it); kInvalidArgument for an invalid value (with variable and value).
LaunchEnvironment read_launch_environment(const Lookup& lookup);

/// Returns the first host of Slurm's "node[003-005,7],login1": "node003".
std::string first_slurm_host(std::string_view list);
/// Returns the `node`-th entry of Slurm's "4(x2),3", which stands for 4, 4, 3; 0 if there is none.
int32_t slurm_tasks_of_node(std::string_view list, int32_t node);
/// Derives a port from a job's name, between 20,480 and 32,767, a range that services and outgoing
/// connections rarely use.
int32_t port_of_job(std::string_view job);

}  // namespace hawser::comm
