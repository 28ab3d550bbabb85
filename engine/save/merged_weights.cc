#include "engine/save/merged_weights.h"

#include "engine/nn/adapter_factors.h"

namespace hawser::train {

const float* MergedWeights::find(const std::string& name) {
  const nn::Parameter& weight = table_.at(name);
  const nn::AdapterFactors factors = nn::adapter_factors(table_, weight);
  if (!factors) return source_(name);
  std::vector<float>& merged = merged_[name];
  if (!merged.empty()) return merged.data();
  const float* const base = source_(name);
  merged.assign(base, base + weight.size);
  const float* const a = source_(factors.a->name);
  const float* const b = source_(factors.b->name);
  const float* const m = factors.m ? source_(factors.m->name) : nullptr;
  nn::merge_adapter(merged.data(), a, b, m, static_cast<float>(factors.scale), weight.shape[0],
                    weight.shape[1], factors.a->shape[0]);
  return merged.data();
}

}  // namespace hawser::train
