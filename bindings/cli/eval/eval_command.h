// `hawser eval`: the loss of a model over a whole file, its perplexity on a text, and its answers to
// questions.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command; it sets *action to what it will do.
void add_eval_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
