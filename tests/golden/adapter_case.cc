// Implements adapter_case.h.
#include "tests/golden/adapter_case.h"

#include <filesystem>
#include <stdexcept>

namespace hawser::golden {

bool has_adapter(const std::string& folder) {
  return std::filesystem::exists(folder + "/adapter/adapter_config.json");
}

AdapterCase read_adapter_case(const std::string& folder) {
  const Tensors tensors = read_safetensors(folder + "/case.safetensors");
  AdapterCase adapter{folder + "/adapter", {}, {}, {}};
  const auto at = [&](const std::string& name) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) throw std::runtime_error("the case has no tensor " + name);
    return found->second;
  };
  adapter.base_logits = at("base_logits"), adapter.after_logits = at("after_logits");
  const std::string prefix = "merged.";
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) adapter.merged.emplace(name.substr(prefix.size()), tensor);
  return adapter;
}

}  // namespace hawser::golden
