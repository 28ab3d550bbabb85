// `hawser average`: the mean of several checkpoints of a run as one checkpoint.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_average_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
