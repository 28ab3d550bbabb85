// What the system refused to do with a file, as a Failure.
#pragma once

#include <string>

namespace hawser::cli {

/// Throws Failure "what: reason" for the errno value `error`, with what to do about it where that helps. A
/// path or a right that is missing is wrong input (exit code 2); a full disk or a failing one is not (1).
[[noreturn]] void fail_file(const std::string& what, int error);

}  // namespace hawser::cli
