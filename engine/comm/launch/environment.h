// What launchers tell the processes that they start, in environment variables: torchrun, Open MPI, Slurm,
// PMIx, PMI (MPICH, Intel MPI) and indexed jobs of Kubernetes. Variables of Hawser's own (HAWSER_*) say it
// where no launcher does, or other than the launcher.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::comm {

/// The value of an environment variable, nullptr if it is not set.
using Lookup = std::function<const char*(const char* name)>;

struct LaunchEnvironment {
  struct Variable {
    std::string name, value;
  };
  std::string launcher;  ///< "torchrun", "openmpi", "slurm", "pmix", "pmi", "kubernetes", "hawser"
  std::string job;       ///< what its ranks share and other jobs do not have; "": nothing is known
  std::string address;   ///< "host:port" where rank 0 listens
  int32_t rank = 0, world_size = 1;
  int32_t local_world_size = 0;  ///< ranks of the job on this machine; 0: unknown
  std::string host, interface, secret_file;
  bool trust_network = false;
  std::vector<Variable>
      read;  ///< all that were set and have a part in this, in order; no secret is among them
};

/// Throws kFailedPrecondition if no launcher is found, or one that does not say enough (what is missing, and
/// which variable says it), kInvalidArgument for a value that is none (variable and value).
LaunchEnvironment read_launch_environment(const Lookup& lookup);

/// The first host of Slurm's "node[003-005,7],login1": "node003".
std::string first_slurm_host(std::string_view list);
/// The `node`-th entry of Slurm's "4(x2),3": 4, 4, 3. 0 if there is none.
int32_t slurm_tasks_of_node(std::string_view list, int32_t node);
/// A port between 20,480 and 32,767, which neither services nor outgoing connections use much, from a job's
/// name.
int32_t port_of_job(std::string_view job);

}  // namespace hawser::comm
