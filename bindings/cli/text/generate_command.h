// `hawser generate`: continues a text or token ids, printing each token as it is generated.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_generate_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
