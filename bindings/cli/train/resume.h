// resume: the rules on what --resume may change. A resumed run must continue as if it had never stopped, so
// its config is the one in its folder. Only fields that do not affect the steps already taken may differ.
#pragma once

#include "bindings/cli/client.h"
#include "bindings/cli/commands.h"
#include "bindings/cli/run_folder.h"

namespace hawser::cli {

/// Returns the config of the run in `folder`, with the allowed changes of the command line. --data gives the
/// present path of the data. Refuses --set of any other field, and a CONFIG that is not the run's (exit code
/// 2, nothing written).
Config resume_config(const RunFolder& folder, const ConfigOptions& options);

/// Returns the config for a command line that begins or resumes a run (--elastic): CONFIG, --set and --data
/// must be those of the run, except for fields that may change. Without CONFIG it is resume_config.
Config same_run_config(const RunFolder& folder, const ConfigOptions& options);

/// Refuses to resume from `checkpoint` of the run in `folder` if it was written under another config, because
/// config.json in the folder was edited by hand. Names every field. Fields that a resumed run may change are
/// not compared; the engine compares the data.
void check_against_checkpoint(const RunFolder& folder, const hws_config* run, const std::string& checkpoint);

}  // namespace hawser::cli
