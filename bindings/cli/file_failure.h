// Turns errno values of file operations into Failures, and checks whether a file exists.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cli {

/// The HWS_* status of an errno value. A missing path or permission is wrong input (exit code 2); a full or
/// failing disk is not (1).
int32_t file_status(int error);

/// Throws Failure "what: reason" for the errno value `error`, with advice for some errors.
[[noreturn]] void fail_file(const std::string& what, int error);

/// Return true if `path` exists, or if it is a folder; follow links. Throw Failure if that cannot be
/// determined, so that a forbidden path is not reported as absent.
bool exists(const std::string& path);
bool is_folder(const std::string& path);

}  // namespace hawser::cli
