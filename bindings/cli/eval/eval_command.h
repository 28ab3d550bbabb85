// `hawser eval`: measures the loss of a model over a whole file, its perplexity on a text, and its answers to
// questions.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_eval_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
