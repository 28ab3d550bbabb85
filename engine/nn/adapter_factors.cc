#include "engine/nn/adapter_factors.h"

namespace hawser::nn {

AdapterFactors adapter_factors(const ParameterTable& table, const Parameter& weight) {
  if (!table.adapter().on() || !is_linear(weight)) return {};
  std::string module = module_of(weight);
  const Parameter* const b = table.find(module + ".adapter_b.weight");
  if (b == nullptr) return {};
  const Parameter* const m = table.find(module + ".adapter_m.weight");
  const Parameter* a = table.find(module + ".adapter_a.weight");
  if (a == nullptr) {
    module = module.substr(0, module.rfind('.')) + ".qkv";
    a = &table.at(module + ".adapter_a.weight");
  }
  return {a, b, m, adapter_of(table.adapter(), module).scale};
}

}  // namespace hawser::nn
