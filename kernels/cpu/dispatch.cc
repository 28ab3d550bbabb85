// Chooses among the levels that were built; implements the functions of kernels/include/levels.h.
#include <algorithm>
#include <iterator>

#include "engine/base/error.h"
#include "kernels/cpu/built_levels.h"
#include "kernels/cpu/cpuid.h"

namespace hawser::kernels {
namespace {

constexpr const char* kLevelNames[] = {"generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16"};

/// Returns the entry of the highest built level that is not above `limit`. The generic level is always built.
const BuiltLevel& highest_built(CpuLevel limit) {
  const BuiltLevel* best = &kBuiltLevels[0];
  for (const BuiltLevel& row : kBuiltLevels) {
    if (row.level <= limit) best = &row;
  }
  return *best;
}

}  // namespace

CpuLevel best_cpu_level() {
  static const CpuLevel best = highest_built(detect_cpu_level()).level;
  return best;
}

const KernelTable& cpu_kernels(CpuLevel level) {
  if (level > best_cpu_level() || level < CpuLevel::kGeneric) {
    fail(Code::kDeviceUnavailable,
         "CPU level {} is not available: the highest that this build has and this machine ({}) runs is {}; "
         "choose that or a lower one",
         cpu_level_name(level), cpu_name(), cpu_level_name(best_cpu_level()));
  }
  return *highest_built(level).table;
}

const char* cpu_level_name(CpuLevel level) {
  const auto index = static_cast<size_t>(level);
  return index < std::size(kLevelNames) ? kLevelNames[index] : "unknown";
}

int32_t cpu_level_from_name(std::string_view name) {
  const auto* found = std::find(std::begin(kLevelNames), std::end(kLevelNames), name);
  return found == std::end(kLevelNames) ? -1 : static_cast<int32_t>(found - std::begin(kLevelNames));
}

const char* cpu_name() {
  static const struct Name {
    char text[64];
    Name() { read_cpu_name(text); }
  } name;
  return name.text;
}

}  // namespace hawser::kernels
