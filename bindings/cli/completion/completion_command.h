// `hawser completion`: prints a completion script, or (for the build, hidden) writes all scripts and manual
// pages.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it. The script describes
/// the commands that `app` has when it runs.
void add_completion_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
