#include "engine/nn/adapter_factors.h"

#include <vector>

namespace hawser::nn {

AdapterFactors adapter_factors(const ParameterTable& table, const Parameter& weight) {
  if (!table.adapter().on() || !is_linear(weight)) return {};
  std::string module = module_of(weight);
  const Parameter* const b = table.find(module + ".adapter_b.weight");
  if (b == nullptr) return {};
  const Parameter* a = table.find(module + ".adapter_a.weight");
  if (a == nullptr) {
    module = module.substr(0, module.rfind('.')) + ".qkv";
    a = &table.at(module + ".adapter_a.weight");
  }
  return {a, b, adapter_of(table.adapter(), module).scale};
}

void merge_adapter(float* weights, const float* a, const float* b, float scale, int64_t out, int64_t in,
                   int64_t rank) {
  std::vector<float> row(static_cast<size_t>(in));
  float* const sum = row.data();
  for (int64_t o = 0; o < out; ++o, weights += in) {
    for (int64_t i = 0; i < in; ++i) sum[i] = 0;
    for (int64_t r = 0; r < rank; ++r) {
      const float factor = b[o * rank + r];
      const float* const from = a + r * in;
      for (int64_t i = 0; i < in; ++i) sum[i] += factor * from[i];
    }
    for (int64_t i = 0; i < in; ++i) weights[i] += scale * sum[i];
  }
}

}  // namespace hawser::nn
