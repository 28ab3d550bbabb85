// Normal values: compiles normal_formula.h for the widest vectors available, because an engine generates
// millions of values before its first step.
#include "engine/nn/normal_formula.h"
#include "kernels/include/levels.h"

namespace hawser::nn {
namespace {

[[gnu::target("arch=x86-64-v4")]] void with_avx512(float* out, uint64_t key, uint64_t block, float std) {
  normal_values_by_formula(out, key, block, std);
}

[[gnu::target("arch=x86-64-v3")]] void with_avx2(float* out, uint64_t key, uint64_t block, float std) {
  normal_values_by_formula(out, key, block, std);
}

void with_baseline(float* out, uint64_t key, uint64_t block, float std) {
  normal_values_by_formula(out, key, block, std);
}

}  // namespace

void normal_values(float* out, uint64_t key, uint64_t block, float std) {
  const kernels::CpuLevel level = kernels::best_cpu_level();
  if (level >= kernels::CpuLevel::kV4) return with_avx512(out, key, block, std);
  if (level >= kernels::CpuLevel::kV3) return with_avx2(out, key, block, std);
  with_baseline(out, key, block, std);
}

}  // namespace hawser::nn
