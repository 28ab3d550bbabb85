// CPU detection by CPUID and XGETBV. The x86-64 levels are those of the System V psABI supplement; a level
// counts only if the operating system saves its registers (XCR0).
#include <cpuid.h>

#include <cstring>

#include "kernels/cpu/cpuid.h"

namespace hawser::kernels {
namespace {

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// Returns zeros if the processor lacks the leaf.
Leaf cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Leaf r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx)) return Leaf{};
  return r;
}

uint64_t enabled_state() {
  uint32_t low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool all(uint32_t value, uint32_t bits) { return (value & bits) == bits; }

constexpr uint32_t bit(int i) { return 1u << i; }

}  // namespace

const char* const kArchitecture = "x86-64";

CpuLevel detect_cpu_level() {
  const Leaf basic = cpuid(1), extended = cpuid(0x80000001u);
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF
  if (!all(basic.ecx, bit(0) | bit(9) | bit(13) | bit(19) | bit(20) | bit(23)) ||
      !all(extended.ecx, bit(0))) {
    return CpuLevel::kGeneric;
  }
  const Leaf features = cpuid(7);
  // FMA, MOVBE, OSXSAVE, AVX, F16C; LZCNT; BMI1, AVX2, BMI2
  if (!all(basic.ecx, bit(12) | bit(22) | bit(27) | bit(28) | bit(29)) || !all(extended.ecx, bit(5)) ||
      !all(features.ebx, bit(3) | bit(5) | bit(8))) {
    return CpuLevel::kV2;
  }
  const uint64_t state = enabled_state();
  if ((state & 0x6) != 0x6) return CpuLevel::kV2;  // XMM, YMM
  // AVX512 F, DQ, CD, BW, VL; opmask and ZMM state
  if (!all(features.ebx, bit(16) | bit(17) | bit(28) | bit(30) | bit(31)) || (state & 0xe0) != 0xe0) {
    return CpuLevel::kV3;
  }
  return all(cpuid(7, 1).eax, bit(5)) ? CpuLevel::kV4Bf16 : CpuLevel::kV4;
}

void read_cpu_name(char (&name)[64]) {
  std::memset(name, 0, sizeof(name));
  for (uint32_t i = 0; i < 3; ++i) {
    const Leaf r = cpuid(0x80000002u + i);
    std::memcpy(name + 16 * i, &r, 16);
  }
  size_t begin = 0, end = std::strlen(name);
  while (name[begin] == ' ') ++begin;
  while (end > begin && name[end - 1] == ' ') --end;
  std::memmove(name, name + begin, end - begin);
  name[end - begin] = 0;
  if (name[0] == 0) std::strcpy(name, "unknown");
}

}  // namespace hawser::kernels
