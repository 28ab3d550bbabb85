// The CPU levels: which ones the machine supports, and the kernel table of each.
#pragma once

#include <cstdint>
#include <string_view>

namespace hawser::kernels {

struct KernelTable;

/// In ascending order; each level includes the previous ones.
enum class CpuLevel : int32_t { kGeneric = 0, kV2 = 1, kV3 = 2, kV4 = 3, kV4Bf16 = 4 };

/// The highest level that this build has and this machine can run (CPUID and XCR0, read once).
CpuLevel best_cpu_level();

/// The table of `level`. Throws kDeviceUnavailable, naming both, if level > best_cpu_level().
const KernelTable& cpu_kernels(CpuLevel level);

/// Convert a level to "generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16" and back; -1 for an
/// unknown name.
const char* cpu_level_name(CpuLevel level);
int32_t cpu_level_from_name(std::string_view name);

/// The processor's brand string, such as "AMD EPYC 9R14"; "unknown" if there is none. Static storage.
const char* cpu_name();

}  // namespace hawser::kernels
