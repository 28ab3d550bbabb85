// Turns errno values of file operations into Failures, and checks whether a file exists.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::cli {

/// The HWS_* status of an errno value. A missing path or permission is wrong input (exit code 2); a full or
/// failing disk is not (1).
int32_t file_status(int error);

/// Throws Failure "what: reason" for the errno value `error`, with advice if there is any.
[[noreturn]] void fail_file(const std::string& what, int error);

/// Whether `path` exists, and whether it is a folder; follows links. Throws Failure if that cannot be
/// determined, rather than report a forbidden path as absent.
bool exists(const std::string& path);
bool is_folder(const std::string& path);

}  // namespace hawser::cli
