// PEFT names: list PEFT's tensors and our parameters in them.
#include "engine/base/error.h"
#include "engine/checkpoint/hf/peft.h"
#include "engine/nn/adapter_factors.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr const char* kPrefix = "base_model.model.";

/// Adds the factors and the magnitudes of one module. If the module consists of several of our parameters,
/// they share one A, and their B and magnitudes are stored one after the other.
void add_factors(const Binding& base, const nn::ParameterTable& table, std::vector<Binding>* bindings) {
  Binding b{"", {0, 0}}, m{"", {0}}, own{"", {}};
  const nn::Parameter* a = nullptr;
  for (const BindingPart& part : base.parts) {
    const nn::AdapterFactors factors = nn::adapter_factors(table, table.at(part.parameter));
    if (!factors || (a != nullptr && a != factors.a)) return;
    a = factors.a;
    b.append(factors.b->name, 0, factors.b->size);
    if (factors.m != nullptr) {
      m.append(factors.m->name, 0, factors.m->size);
      m.hf_shape[0] += factors.m->size;
    }
    b.hf_shape = {b.hf_shape[0] + factors.b->shape[0], factors.b->shape[1]};
  }
  const bool joint = a->name.find(".qkv.") != a->name.npos;
  if (joint != (base.parts.size() > 1)) return;
  const std::string path = kPrefix + base.hf_name.substr(0, base.hf_name.rfind('.'));
  own.hf_name = path + ".lora_A.weight", own.hf_shape = a->shape;
  own.append(a->name, 0, a->size);
  bindings->push_back(std::move(own));
  b.hf_name = path + ".lora_B.weight";
  bindings->push_back(std::move(b));
  m.hf_name = path + ".lora_magnitude_vector";
  if (!m.parts.empty()) bindings->push_back(std::move(m));
}

}  // namespace

std::vector<Binding> adapter_bindings(const std::vector<Binding>& bindings, const nn::ParameterTable& table) {
  std::vector<Binding> result;
  if (!table.adapter().on()) return result;
  for (const Binding& base : bindings) {
    if (base.parts.empty()) continue;
    const nn::Parameter& first = table.at(base.parts.front().parameter);
    if (nn::is_linear(first)) add_factors(base, table, &result);
    if (!first.trainable) continue;
    result.push_back(base);
    result.back().hf_name = kPrefix + base.hf_name;
  }
  return result;
}

}  // namespace hawser::checkpoint::hf
