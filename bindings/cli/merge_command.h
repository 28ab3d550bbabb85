// `hawser merge`: a base with its adapter as one model.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_merge_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
