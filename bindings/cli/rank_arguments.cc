#include "bindings/cli/rank_arguments.h"

#include <CLI/CLI.hpp>

#include "bindings/cli/argument_checks.h"

namespace hawser::cli {

void add_ranks(CLI::App* sub, RankOptions* o) {
  const char* group = "One rank of a job of processes";
  sub->add_option(
         "--comm", o->comm,
         "Address of rank 0, where all ranks meet; env: read it from torchrun, mpirun, srun or Kubernetes")
      ->type_name("HOST:PORT|env")
      ->group(group);
  sub->add_option("--rank", o->rank, "This process's rank, counted from 0; rank 0 prints and writes the run")
      ->check(whole_number(0))
      ->group(group);
  sub->add_option("--world", o->world, "Number of ranks; must match the config's mesh")
      ->check(whole_number(1))
      ->group(group);
  CLI::Option* host =
      sub->add_option("--host", o->host, "This machine's address, to which the other ranks connect");
  host->type_name("ADDRESS")->group(group);
  sub->add_option("--interface", o->network_interface, "Network interface with that address")
      ->type_name("NAME")
      ->excludes(host)
      ->group(group);
  sub->add_option("--processes-here", o->processes_here,
                  "Number of ranks on this machine; they share its CPU threads")
      ->check(whole_number(1))
      ->group(group);
  sub->add_option("--secret-file", o->secret_file, "File with the job's shared secret, at least 32 bytes")
      ->type_name("FILE")
      ->group(group);
  sub->add_flag("--trust-network", o->trust_network, "Allow ranks on other machines without a secret")
      ->group(group);
  sub->add_flag("--without-shared-memory", o->without_shared_memory,
                "Use TCP instead of shared memory for ranks on this machine")
      ->group(group);
  sub->add_option("--dead-after", o->dead_after,
                  "Seconds without a heartbeat until a process counts as dead (default: 10)")
      ->check(number_from_zero())
      ->group(group);
  sub->add_option("--control", o->control)->group("");      // set by launch --elastic
  sub->add_option("--secret-fd", o->secret_fd)->group("");  // set by launch
}

}  // namespace hawser::cli
