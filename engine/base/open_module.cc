#include "engine/base/open_module.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>

#include "engine/base/error.h"

namespace hawser {
namespace {

/// The folder of the library or program that contains this function.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : real.parent_path();
}

}  // namespace

OpenedModule open_module(const std::string& folder, const char* library, const char* entry) {
  const std::filesystem::path from =
      folder.empty() ? own_folder() / "hawser-0" : std::filesystem::path(folder);
  OpenedModule module;
  module.path = (from / library).string();
  void* const opened = dlopen(module.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (opened != nullptr) {
    module.entry = dlsym(opened, entry);
  } else {
    const char* const reason = dlerror();
    module.reason = reason != nullptr ? reason : "unknown";
    const std::string prefix = module.path + ": ";  // callers add the path themselves
    if (module.reason.starts_with(prefix)) module.reason.erase(0, prefix.size());
  }
  return module;
}

void require_same_build(const std::string& path, const char* theirs, const char* ours) {
  if (theirs != nullptr && std::strcmp(theirs, ours) == 0) return;
  fail(Code::kAbiMismatch,
       "{} is of another build (\"{}\"; this library is \"{}\"); install both from one release", path,
       theirs != nullptr ? theirs : "none", ours);
}

}  // namespace hawser
