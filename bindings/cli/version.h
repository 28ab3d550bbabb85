// What `hawser --version` prints.
#pragma once

#include <string>

namespace hawser::cli {

/// The git commit that the command was built from, or "unknown". The build generates its source.
extern const char* const kCommit;

/// Returns the version, the commit, the CPU level that this machine uses, and the optional modules.
std::string version_text();

}  // namespace hawser::cli
