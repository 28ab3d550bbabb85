// `hawser compare`: writes a page that compares the losses and configs of several runs.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_compare_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
