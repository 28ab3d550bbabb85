// `hawser tokenizer`: converts text to token ids and back, and trains a vocabulary.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_tokenizer_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
