#include "engine/nn/adapter_config.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace hawser::nn {
namespace {

bool matches(const std::string& pattern, std::string_view name) {
  return fnmatch(pattern.c_str(), std::string(name).c_str(), FNM_NOESCAPE) == 0;
}

template <typename T>
T value_for(const std::vector<ForModules<T>>& values, const std::string& module, T otherwise) {
  for (const ForModules<T>& entry : values)
    if (names_module(entry.of, module)) return entry.value;
  return otherwise;
}

}  // namespace

AdapterConfig::AdapterConfig() = default;
AdapterConfig::AdapterConfig(const AdapterConfig&) = default;
AdapterConfig::AdapterConfig(AdapterConfig&&) noexcept = default;
AdapterConfig& AdapterConfig::operator=(const AdapterConfig&) = default;
AdapterConfig& AdapterConfig::operator=(AdapterConfig&&) noexcept = default;
AdapterConfig::~AdapterConfig() = default;

std::string_view within_block(std::string_view module) {
  constexpr std::string_view kBlocks = "blocks.";
  if (!module.starts_with(kBlocks)) return module;
  const size_t dot = module.find('.', kBlocks.size());
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

int64_t layer_of(std::string_view module) {
  constexpr std::string_view kBlocks = "blocks.";
  int64_t layer = -1;
  if (module.starts_with(kBlocks))
    std::from_chars(module.data() + kBlocks.size(), module.data() + module.size(), layer);
  return layer;
}

bool names_module(const std::string& pattern, const std::string& module) {
  if (module.ends_with(".qkv") && !pattern.ends_with("qkv")) return false;
  return matches(pattern, module) || matches(pattern, within_block(module));
}

AdapterOf adapter_of(const AdapterConfig& config, const std::string& module) {
  const auto named = [&](const std::string& target) { return names_module(target, module); };
  if (!config.on() || std::none_of(config.targets.begin(), config.targets.end(), named)) return {};
  const int64_t rank = value_for(config.ranks, module, config.rank);
  const double alpha = value_for(config.alphas, module, config.alpha), r = static_cast<double>(rank);
  return {rank, alpha / (config.rslora ? std::sqrt(r) : r)};
}

std::vector<std::string> usual_targets(bool joint) {
  if (!joint) return {"*"};
  return {"attention.qkv", "attention.o", "m*"};  // the pattern names mlp and moe.shared
}

/// Returns the FNV-1a hash of the module's name, shifted above the values of Context's DropoutSite.
int64_t adapter_site(std::string_view module) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : within_block(module)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<int64_t>(hash | (uint64_t{1} << 62));
}

}  // namespace hawser::nn
