// AdapterConfig: selects the linears of the blocks that have a low-rank adapter (LoRA, Hu et al.,
// arXiv:2106.09685), and its size. Patterns match the module names of nn/parameter.h: `blocks.3.attention.q`.
// `attention.qkv` is one adapter over q, k and v together, with one A for all three.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::nn {

/// A value for the modules that match a pattern.
template <typename T>
struct ForModules {
  std::string of;
  T value{};
};

struct AdapterConfig {
  // Defined in the .cc, so that not every file that copies a model's config compiles them.
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
  double dropout = 0;   ///< dropout of the input of A, in training
  std::vector<std::string> targets;
  std::vector<ForModules<int64_t>> ranks;  ///< the first pattern that matches a module applies
  std::vector<ForModules<double>> alphas;
  std::vector<std::string> train;  ///< patterns for names of parameters that are trained too
  std::string from;                ///< PEFT folder of the adapter's first weights; empty: none
  bool nf4 = false;                ///< keeps the frozen linears of the blocks in NF4 (nn/nf4.h)
  bool nf4_nested = true;  ///< the absmax of NF4 blocks are quantised too, as in the base model's folder

  bool on() const { return rank > 0; }
};

void each_key(ForModules<int64_t>& m, auto&& visit) {
  visit("of", m.of);
  visit("rank", m.value);
}
void each_key(ForModules<double>& m, auto&& visit) {
  visit("of", m.of);
  visit("alpha", m.value);
}
/// Calls visit(key, member, applies) for each key of the config's adapter section except `base`. `applies` is
/// true if the model has adapters.
void each_key(AdapterConfig& a, auto&& visit) {
  visit("rank", a.rank, true);
  visit("alpha", a.alpha, a.on());
  visit("targets", a.targets, a.on());
  visit("ranks", a.ranks, a.on());
  visit("alphas", a.alphas, a.on());
  visit("rslora", a.rslora, a.on());
  visit("dropout", a.dropout, a.on());
  visit("train", a.train, a.on());
  visit("from", a.from, a.on());
  visit("dora", a.dora, a.on());
}

/// The adapter of one module; none if the rank is 0.
struct AdapterOf {
  int64_t rank = 0;
  double scale = 0;
};

/// Returns true if `pattern` (with * and ?) matches the module's full name, or its name after `blocks.N.`. A
/// joint module (`attention.qkv`) is matched only by a pattern that ends like its name: * matches its parts
/// instead.
bool names_module(const std::string& pattern, const std::string& module);
AdapterOf adapter_of(const AdapterConfig& config, const std::string& module);
/// Returns the default targets: every linear, with q, k and v as one joint module or as three.
std::vector<std::string> usual_targets(bool joint);
/// Returns the part of the dropout key, besides the layer, for the input of a module's A.
int64_t adapter_site(std::string_view module);
/// Split `blocks.3.attention.q` into `attention.q` and layer 3.
std::string_view within_block(std::string_view module);
int64_t layer_of(std::string_view module);

}  // namespace hawser::nn
