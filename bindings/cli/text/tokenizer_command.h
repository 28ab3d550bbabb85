// `hawser tokenizer`: text to token ids and back, and a vocabulary of one's own.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace hawser::cli {

/// Adds the command; it sets *action to what it will do.
void add_tokenizer_command(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
