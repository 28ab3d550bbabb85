// Chooses among the levels that were built; implements the functions of kernels/include/levels.h.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "kernels/cpu/built_levels.h"
#include "kernels/cpu/cpuid.h"

namespace hawser::kernels {
namespace {

struct LevelName {
  std::string_view name, architecture;
};

constexpr LevelName kLevels[kCpuLevels] = {{"generic", ""},
                                           {"x86-64-v2", "x86-64"},
                                           {"x86-64-v3", "x86-64"},
                                           {"x86-64-v4", "x86-64"},
                                           {"x86-64-v4+bf16", "x86-64"},
                                           {"armv8-a", "aarch64"},
                                           {"armv8.2-a+bf16", "aarch64"}};

bool is_known(CpuLevel level) {
  return level >= CpuLevel::kGeneric && static_cast<int32_t>(level) < kCpuLevels;
}

/// True if processors of this architecture can have the level.
bool is_native(CpuLevel level) {
  const std::string_view architecture = cpu_level_architecture(level);
  return is_known(level) && (architecture.empty() || architecture == kArchitecture);
}

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

bool has_cpu_level(CpuLevel level) { return is_native(level) && level <= best_cpu_level(); }

const KernelTable& cpu_kernels(CpuLevel level) {
  if (is_known(level) && !is_native(level)) {
    fail(Code::kDeviceUnavailable,
         "CPU level {} is for {} processors, but this machine ({}) is {}, whose highest level is {}; choose "
         "one of {}",
         cpu_level_name(level), cpu_level_architecture(level), cpu_name(), kArchitecture,
         cpu_level_name(best_cpu_level()), cpu_level_names());
  }
  if (!has_cpu_level(level)) {
    fail(Code::kDeviceUnavailable,
         "CPU level {} is not available: the highest that this build has and this machine ({}) runs is {}; "
         "choose that or a lower one",
         cpu_level_name(level), cpu_name(), cpu_level_name(best_cpu_level()));
  }
  return *highest_built(level).table;
}

const char* cpu_level_name(CpuLevel level) {
  return is_known(level) ? kLevels[static_cast<size_t>(level)].name.data() : "unknown";
}

int32_t cpu_level_from_name(std::string_view name) {
  const auto* found = std::find_if(std::begin(kLevels), std::end(kLevels),
                                   [&](const LevelName& l) { return l.name == name; });
  return found == std::end(kLevels) ? -1 : static_cast<int32_t>(found - std::begin(kLevels));
}

const char* cpu_level_architecture(CpuLevel level) {
  return is_known(level) ? kLevels[static_cast<size_t>(level)].architecture.data() : "";
}

const char* cpu_architecture() { return kArchitecture; }

std::string cpu_level_names() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < kCpuLevels; ++i) {
    const auto level = static_cast<CpuLevel>(i);
    if (is_native(level)) names.push_back('"' + std::string(cpu_level_name(level)) + '"');
  }
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i) text += (i + 1 < names.size() ? ", " : " or ") + names[i];
  return text;
}

CpuLevel common_cpu_level(CpuLevel a, CpuLevel b) {
  const CpuLevel lower = std::min(a, b);
  const std::string_view one = cpu_level_architecture(a), other = cpu_level_architecture(b);
  return one == other ? lower : CpuLevel::kGeneric;
}

const char* cpu_name() {
  static const struct Name {
    char text[64];
    Name() { read_cpu_name(text); }
  } name;
  return name.text;
}

}  // namespace hawser::kernels
