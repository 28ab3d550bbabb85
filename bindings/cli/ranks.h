// The ranks of a run: how many its config's mesh has, which of them this process holds, and the engine over
// them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"

namespace hawser::cli {

/// What the options say, rank and world taken from the launcher's variables for --comm env.
RankOptions with_environment(RankOptions options);

/// Ranks in the mesh of a config.
int64_t ranks_of(const hws_config* config);

/// Refuses --rank, --world and the like that do not fit together or the config's mesh.
void check_ranks(const RankOptions& options, const hws_config* config);

/// Ranks over TCP take a descriptor for each other rank, a launcher some for each. This process is the
/// command's own, so its limit is raised as far as that goes; what is still too little, the library says.
void allow_descriptors();

/// The engine of `config` over this process's ranks: all of them as threads, or one of a job of processes,
/// which it waits for. What concerns this machine alone (its share of the CPU threads) is set on the way.
Engine make_engine(const hws_config* config, uint32_t flags, const RankOptions& options);

/// True for the process that prints and writes the run's files.
inline bool leads(const RankOptions& options) { return options.rank <= 0; }

}  // namespace hawser::cli
