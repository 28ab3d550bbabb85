// The arguments of a command whose process is one rank of a job.
#pragma once

#include "bindings/cli/commands.h"

namespace CLI {
class App;
}

namespace hawser::cli {

/// Adds the options to a subcommand. Parsing writes them to *options, which must outlive the subcommand.
void add_ranks(CLI::App* sub, RankOptions* options);

}  // namespace hawser::cli
