// What the system refused to do with a file, as a Failure.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cli {

/// The HWS_* status of an errno value. A path or a right that is missing is wrong input (exit code 2); a full
/// disk or a failing one is not (1).
int32_t file_status(int error);

/// Throws Failure "what: reason" for the errno value `error`, with what to do about it where that helps.
[[noreturn]] void fail_file(const std::string& what, int error);

}  // namespace hawser::cli
