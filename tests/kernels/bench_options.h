// The options of benchmarks of CPU kernels: their values on the command line, and the level that they name.
#pragma once

#include <cstdio>
#include <map>
#include <string>

#include "kernels/include/levels.h"
#include "kernels/include/table.h"

namespace hawser::bench {

using Options = std::map<std::string, std::string>;

/// Overwrites the values of `options`, which has every option with its default. Returns false, after a
/// message, for an unknown option or one without a value.
inline bool read_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc || !options->contains(argv[i])) {
      std::fprintf(stderr, "%s: unknown option or no value: %s\n", argv[0], argv[i]);
      return false;
    }
    (*options)[argv[i]] = argv[i + 1];
  }
  return true;
}

/// Returns the kernels of a level, of the best one if `name` is empty. Null, after a message, if this machine
/// or build does not have it.
inline const kernels::KernelTable* level_named(const std::string& name) {
  if (name.empty()) return &kernels::cpu_kernels(kernels::best_cpu_level());
  for (int32_t level = 0; level < kernels::kCpuLevels; ++level) {
    if (!kernels::has_cpu_level(static_cast<kernels::CpuLevel>(level))) continue;
    const kernels::KernelTable& table = kernels::cpu_kernels(static_cast<kernels::CpuLevel>(level));
    if (name == table.name) return &table;
  }
  std::fprintf(stderr, "this machine or build has no level %s\n", name.c_str());
  return nullptr;
}

}  // namespace hawser::bench
