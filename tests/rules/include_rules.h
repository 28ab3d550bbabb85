// IncludeRules: decides whether one file may include another, by the layers of the design.
#pragma once

#include <string>
#include <string_view>

namespace hawser::rules {

/// Returns "" if a file at `path` (below the root) may include `included` (as written between quotes),
/// otherwise the reason why it may not.
std::string include_problem(std::string_view path, std::string_view included);

}  // namespace hawser::rules
