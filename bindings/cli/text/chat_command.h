// `hawser chat`: talks to a model by its own chat template.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command; it sets *action to what it will do.
void add_chat_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
