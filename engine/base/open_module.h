// Opens an optional library of Hawser, such as a transport or a kind of device: once for the process, and it
// is never closed.
#pragma once

#include <string>

namespace hawser {

struct OpenedModule {
  void* entry = nullptr;  ///< its one function; null: the library could not be opened, or has none
  std::string path;       ///< where it was looked for
  std::string reason;     ///< why it could not be opened, in the loader's words; "": it is open
};

/// `library` in `folder`, or, if that is "", in hawser-0/ beside the library or program that this code is in.
OpenedModule open_module(const std::string& folder, const char* library, const char* entry);

/// Throws kAbiMismatch naming path and both ids unless `theirs` (null: it has none) is `ours`.
void require_same_build(const std::string& path, const char* theirs, const char* ours);

}  // namespace hawser
