// `hawser chat`: a conversation with a model by its own chat template.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_chat_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
