// The CPU levels: which ones the machine supports, and the kernel table of each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hawser::kernels {

struct KernelTable;

/// In ascending order for each architecture. Each level includes the previous ones of its architecture, and
/// the generic level, which every architecture has.
enum class CpuLevel : int32_t {
  kGeneric = 0,
  kV2 = 1,
  kV3 = 2,
  kV4 = 3,
  kV4Bf16 = 4,
  kNeon = 5,
  kNeonBf16 = 6
};

/// The number of levels of all architectures.
inline constexpr int32_t kCpuLevels = 7;

/// The highest level that this build has and this machine can run (read once: CPUID and XCR0, or HWCAP).
CpuLevel best_cpu_level();

/// True if the level is of this machine's architecture, or generic, and not above best_cpu_level().
bool has_cpu_level(CpuLevel level);

/// The table of `level`, or of the next lower level that was built. Throws kDeviceUnavailable, naming the
/// level and the best one, unless has_cpu_level(level).
const KernelTable& cpu_kernels(CpuLevel level);

/// Convert a level to "generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16", "armv8-a" or
/// "armv8.2-a+bf16" and back; -1 for an unknown name.
const char* cpu_level_name(CpuLevel level);
int32_t cpu_level_from_name(std::string_view name);

/// The architecture of a level: "x86-64" or "aarch64"; "" for the generic level and unknown ones.
const char* cpu_level_architecture(CpuLevel level);

/// The architecture of this machine: "x86-64", "aarch64" or "another architecture".
const char* cpu_architecture();

/// The names of the levels that this architecture has, lowest first, each in quotes, as a list in a sentence.
std::string cpu_level_names();

/// The highest level that is included in both: the generic one if they are of different architectures.
CpuLevel common_cpu_level(CpuLevel a, CpuLevel b);

/// The processor's brand string, such as "AMD EPYC 9R14"; "unknown" if there is none. Static storage.
const char* cpu_name();

}  // namespace hawser::kernels
