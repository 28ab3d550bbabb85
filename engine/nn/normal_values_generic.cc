// Normal values: compiles normal_formula.h for the baseline instruction set.
#include "engine/nn/normal_formula.h"

namespace hawser::nn {

void normal_values(float* out, uint64_t key, uint64_t block, float std) {
  normal_values_by_formula(out, key, block, std);
}

}  // namespace hawser::nn
