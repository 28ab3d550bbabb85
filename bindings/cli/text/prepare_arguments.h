// The arguments of `hawser prepare`.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace hawser::cli {

/// Adds the command; when it is chosen, *action runs it.
void add_prepare(CLI::App* app, std::function<int()>* action);

}  // namespace hawser::cli
