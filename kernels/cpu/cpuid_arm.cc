// CPU detection on 64-bit Arm by the capabilities that the kernel reports to a process (AT_HWCAP, AT_HWCAP2),
// because a process may not be able to read the processor's own registers.
#include <asm/hwcap.h>
#include <sys/auxv.h>

#include <cstdio>
#include <cstring>

#include "kernels/cpu/cpuid.h"

namespace hawser::kernels {
namespace {

/// Copies the value of the first line of /proc/cpuinfo that begins with this key, such as "CPU part : 0xd40".
/// Returns false if there is none.
bool read_field(const char* key, char* value, size_t size) {
  std::FILE* const file = std::fopen("/proc/cpuinfo", "re");
  if (file == nullptr) return false;
  char line[256];
  bool found = false;
  while (!found && std::fgets(line, sizeof(line), file) != nullptr) {
    const char* const colon = std::strchr(line, ':');
    if (colon == nullptr || std::strncmp(line, key, std::strlen(key)) != 0) continue;
    std::snprintf(value, size, "%s", colon + 1 + std::strspn(colon + 1, " "));
    value[std::strcspn(value, "\n")] = 0;
    found = value[0] != 0;
  }
  std::fclose(file);
  return found;
}

}  // namespace

const char* const kArchitecture = "aarch64";

CpuLevel detect_cpu_level() {
  const unsigned long wanted = HWCAP_FP | HWCAP_ASIMD;
  if ((getauxval(AT_HWCAP) & wanted) != wanted) return CpuLevel::kGeneric;
  // Only processors of Armv8.2 and later may have the bf16 instructions.
  return (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0 ? CpuLevel::kNeonBf16 : CpuLevel::kNeon;
}

/// A 64-bit Arm processor has no brand string. Some kernels print a model; others only the numbers of the
/// implementer and the part, which together name the core.
void read_cpu_name(char (&name)[64]) {
  char implementer[16], part[16];
  if (read_field("model name", name, sizeof(name)) || read_field("Model", name, sizeof(name))) return;
  if (read_field("CPU implementer", implementer, sizeof(implementer)) &&
      read_field("CPU part", part, sizeof(part))) {
    std::snprintf(name, sizeof(name), "aarch64 implementer %s part %s", implementer, part);
    return;
  }
  std::strcpy(name, "unknown");
}

}  // namespace hawser::kernels
