#include "engine/comm/gloo/open_module.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace hawser::comm {
namespace {

/// The folder of the library or program that this function is in.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : real.parent_path();
}

}  // namespace

const GlooModule& open_gloo_module(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  if (!folder.empty()) {
    paths.push_back(std::filesystem::path(folder) / kGlooLibrary);
  } else {
    paths.push_back(own_folder() / "hawser-0" / kGlooLibrary);
  }
  std::string tried;
  for (const std::filesystem::path& path : paths) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
      const char* reason = dlerror();
      tried +=
          (tried.empty() ? "" : "; ") + path.string() + " (" + (reason != nullptr ? reason : "unknown") + ")";
      continue;
    }
    const auto entry = reinterpret_cast<GlooEntry>(dlsym(library, kGlooEntry));
    const char* const build_id = entry != nullptr ? entry()->build_id : "none";
    if (entry == nullptr || std::strcmp(build_id, HAWSER_GLOO_BUILD_ID) != 0) {
      fail(Code::kAbiMismatch,
           "{} is of another build (\"{}\"; this library is \"{}\"); install both from one release",
           path.string(), build_id, HAWSER_GLOO_BUILD_ID);
    }
    return *entry();
  }
  fail(Code::kUnavailable,
       "ranks over TCP need {} and the library libgloo, which could not be opened; tried {}; install "
       "Hawser's Gloo "
       "module, or use local ranks or a transport of your own",
       kGlooLibrary, tried);
}

}  // namespace hawser::comm
