// Defines the arguments of `hawser prepare`.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hawser::cli {

/// Adds the command. If the user chooses it, it sets *action to a function that runs it.
void add_prepare(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
