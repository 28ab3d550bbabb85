// CPU detection for architectures for which only the generic level is built.
#include "kernels/cpu/cpuid.h"

namespace hawser::kernels {

const char* const kArchitecture = "another architecture";

CpuLevel detect_cpu_level() { return CpuLevel::kGeneric; }

void read_cpu_name(char (&name)[64]) {
  const char kUnknown[] = "unknown";
  for (size_t i = 0; i < sizeof(kUnknown); ++i) name[i] = kUnknown[i];
}

}  // namespace hawser::kernels
