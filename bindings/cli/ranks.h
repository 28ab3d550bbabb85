// The ranks of a run: their number in the config's mesh, the ones in this process, and the engine over them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"

namespace hawser::cli {

/// The options, with rank and world from the launcher's variables for --comm env.
RankOptions with_environment(RankOptions options);

/// Ranks in the mesh of a config.
int64_t ranks_of(const hws_config* config);

/// Refuses --rank, --world and similar options that contradict each other or the config's mesh.
void check_ranks(const RankOptions& options, const hws_config* config);

/// Raises this process's limit of descriptors as far as possible. Ranks over TCP need one for each other
/// rank, and a launcher several for each. If that is not enough, the library reports it.
void allow_descriptors();

/// Makes the engine of `config` over this process's ranks: all of them as threads, or one of a job of
/// processes, which it waits for. Also sets what concerns this machine only (its share of the CPU threads).
Engine make_engine(const hws_config* config, uint32_t flags, const RankOptions& options);

/// Whether this process prints and writes the run's files.
inline bool leads(const RankOptions& options) { return options.rank <= 0; }

}  // namespace hawser::cli
