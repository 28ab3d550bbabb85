#include "kernels/cuda/optional_library.h"

#include <dlfcn.h>
#include <stdio.h>

namespace hawser::kernels::cuda {

bool open_functions(const char* library, std::initializer_list<LibraryFunction> functions, ErrorText error) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const why = dlerror();
    snprintf(error.text, error.bytes, "cannot open %s: %s", library,
             why != nullptr ? why : "no reason given");
    return false;
  }
  for (const LibraryFunction& function : functions) {
    *function.at = dlsym(opened, function.name);
    if (*function.at != nullptr) continue;
    snprintf(error.text, error.bytes, "%s has no %s", library, function.name);
    return false;
  }
  return true;
}

bool version_fits(const char* library, int64_t version, LibraryVersions versions, ErrorText error) {
  if (version >= versions.first && version < versions.end) return true;
  snprintf(error.text, error.bytes, "%s is version %lld; needs %lld to %lld", library,
           static_cast<long long>(version), static_cast<long long>(versions.first),
           static_cast<long long>(versions.end - 1));
  return false;
}

}  // namespace hawser::kernels::cuda
