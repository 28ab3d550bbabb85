// Which folder may include which: the layers of the design, as a function of two paths.
#pragma once

#include <string>
#include <string_view>

namespace hawser::rules {

/// "" if a file at `path` (below the root) may include `included` (as written between quotes), else why not.
std::string include_problem(std::string_view path, std::string_view included);

}  // namespace hawser::rules
