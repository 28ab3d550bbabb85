// What --resume may change. A resumed run must go on as if it had never stopped, so its config is the one in
// its folder; only fields that change no step that was already taken may differ.
#pragma once

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/run_folder.h"

namespace hawser::cli {

/// The config of the run in `folder`, changed by the command line as far as that is allowed: --data says
/// where the data lie now. Refuses (exit code 2, nothing written) --set of any other field, and a CONFIG that
/// is not the run's.
Config resume_config(const RunFolder& folder, const ConfigOptions& options);

/// The same for a command line that begins a run or goes on with it, whichever is due (--elastic): CONFIG,
/// --set and --data are those of the run, but for what may change; without CONFIG as resume_config.
Config same_run_config(const RunFolder& folder, const ConfigOptions& options);

/// Refuses to go on from `checkpoint`, of the run in `folder`, if the run's config is not the one that it was
/// written under: the folder's config.json was changed by hand. Names every field. Only what a resumed run
/// may change may differ; the data are compared by the engine.
void check_against_checkpoint(const RunFolder& folder, const hws_config* run, const std::string& checkpoint);

}  // namespace hawser::cli
