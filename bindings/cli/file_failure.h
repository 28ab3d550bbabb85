// What the system refused to do with a file, as a Failure; and whether a file is there, which it may refuse
// to tell.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cli {

/// The HWS_* status of an errno value. A path or a right that is missing is wrong input (exit code 2); a full
/// disk or a failing one is not (1).
int32_t file_status(int error);

/// Throws Failure "what: reason" for the errno value `error`, with what to do about it where that helps.
[[noreturn]] void fail_file(const std::string& what, int error);

/// Whether there is something at `path`, links followed, and whether that is a folder. Throws a Failure where
/// that cannot be told: what may not be looked at is not taken for absent.
bool exists(const std::string& path);
bool is_folder(const std::string& path);

}  // namespace hawser::cli
