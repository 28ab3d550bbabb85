// Functions on the ranks of a run: they count the ranks of a config's mesh, check the options that name this
// process's rank, and create the engine over the ranks of this process.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"

namespace hawser::cli {

/// Returns the options; for --comm env with rank and world from the launcher's variables.
RankOptions with_environment(RankOptions options);

/// Returns the number of ranks in the mesh of a config.
int64_t ranks_of(const hws_config* config);

/// Refuses --rank, --world and similar options that contradict each other or the config's mesh.
void check_ranks(const RankOptions& options, const hws_config* config);

/// Raises this process's limit of descriptors as far as possible. A rank over TCP needs one for each other
/// rank, and a launcher needs several for each rank. If that is not enough, the library reports it.
void allow_descriptors();

/// Creates the engine of `config` over this process's ranks: all ranks as threads, or one rank of a job of
/// processes; it then waits for the other processes. Shows the progress of the pass over a reference, unless
/// `quiet`; Ctrl-C ends that pass, and then this function throws Failure (HWS_CANCELLED). Also sets this
/// process's share of the machine's CPU threads.
Engine make_engine(const hws_config* config, uint32_t flags, const RankOptions& options, bool quiet = false);

/// True if this process prints and writes the run's files.
inline bool leads(const RankOptions& options) { return options.rank <= 0; }

}  // namespace hawser::cli
