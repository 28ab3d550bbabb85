// Opens an optional library of Hawser, such as a transport or a device plugin. It is opened once per process
// and never closed.
#pragma once

#include <string>

namespace hawser {

struct OpenedModule {
  void* entry = nullptr;  ///< its one function; null if the library could not be opened or lacks it
  std::string path;       ///< the path that was tried
  /// Why it could not be opened: the loader's words, or the two architectures if it is for another one. "" if
  /// it is open.
  std::string reason;
};

/// Opens `library` in `folder` or, if that is "", in hawser-0/ next to the library or program that contains
/// this code.
OpenedModule open_module(const std::string& folder, const char* library, const char* entry);

/// Throws kAbiMismatch, naming the path and both ids, unless `theirs` (null if there is none) equals `ours`.
void require_same_build(const std::string& path, const char* theirs, const char* ours);

}  // namespace hawser
