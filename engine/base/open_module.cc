#include "engine/base/open_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>

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

std::string architecture_name(uint16_t machine) {
  if (machine == EM_X86_64) return "x86-64";
  return machine == EM_AARCH64 ? "aarch64" : fmt::format("ELF machine {}", machine);
}

/// Returns why the file cannot be loaded if it is a library for processors of another architecture; otherwise
/// "". The loader itself skips such a file and reports that there is none.
std::string other_architecture(const std::string& path) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fbase == nullptr) return {};
  Elf64_Ehdr theirs{}, ours{};
  std::memcpy(&ours, info.dli_fbase, sizeof(ours));
  std::ifstream file(path, std::ios::binary);
  const bool is_elf = file.read(reinterpret_cast<char*>(&theirs), sizeof(theirs)) &&
                      std::memcmp(theirs.e_ident, ELFMAG, SELFMAG) == 0;
  if (!is_elf || theirs.e_machine == ours.e_machine) return {};
  const std::string own = architecture_name(ours.e_machine);
  return fmt::format(
      "it is for {} processors, but this process is {}; install the file that was built for {}",
      architecture_name(theirs.e_machine), own, own);
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
    if (const std::string why = other_architecture(module.path); !why.empty()) module.reason = why;
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
