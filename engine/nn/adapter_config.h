// AdapterConfig: which linears of the blocks have a low-rank adapter (LoRA, Hu et al., arXiv:2106.09685), and
// how large. The module names that patterns meet are those of nn/parameter.h: `blocks.3.attention.q`.
// `attention.qkv` is one adapter over q, k and v together: one A for all three.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::nn {

/// A value for the modules that a pattern names.
template <typename T>
struct ForModules {
  std::string of;
  T value{};
};

struct AdapterConfig {
  // Defined once, not wherever a model's config is copied.
  AdapterConfig();
  AdapterConfig(const AdapterConfig&);
  AdapterConfig(AdapterConfig&&) noexcept;
  AdapterConfig& operator=(const AdapterConfig&);
  AdapterConfig& operator=(AdapterConfig&&) noexcept;
  ~AdapterConfig();

  int64_t rank = 0;  ///< 0: no adapter
  double alpha = 0;
  bool rslora = false;  ///< scale by alpha / sqrt(rank) (Kalajdzievski, arXiv:2312.03732), not alpha / rank
  bool dora = false;    ///< trains the magnitude of each row too (nn/magnitude.h)
  double dropout = 0;   ///< of what A reads, in training
  std::vector<std::string> targets;
  std::vector<ForModules<int64_t>> ranks;  ///< the first pattern that names a module counts
  std::vector<ForModules<double>> alphas;
  std::vector<std::string> train;  ///< patterns for names of parameters that are trained beside
  std::string from;                ///< PEFT folder of its first weights; empty: none
  bool nf4 = false;                ///< keeps the frozen linears of the blocks in NF4 (nn/nf4.h)
  bool nf4_nested = true;  ///< whether their absmax are quantised in turn; as the folder of the base has them

  bool on() const { return rank > 0; }
};

/// The adapter of one module; none if the rank is 0.
struct AdapterOf {
  int64_t rank = 0;
  double scale = 0;
};

/// Whether `pattern` (with * and ?) names the module, whole or from after `blocks.N.` on. Only a pattern that
/// ends as the name does names a joint module (`attention.qkv`): * means its parts.
bool names_module(const std::string& pattern, const std::string& module);
AdapterOf adapter_of(const AdapterConfig& config, const std::string& module);
/// Targets of a config that names none: every linear, q, k and v as one or apart.
std::vector<std::string> usual_targets(bool joint);
/// What dropout before a module's A is keyed by, beside the layer.
int64_t adapter_site(std::string_view module);
/// `blocks.3.attention.q` without `blocks.3.`, and its layer.
std::string_view within_block(std::string_view module);
int64_t layer_of(std::string_view module);

}  // namespace hawser::nn
