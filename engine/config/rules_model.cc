// Model rules: refuse contradictions in the model section.
#include <fmt/format.h>

#include <algorithm>

#include "engine/config/rules.h"
#include "engine/config/tree.h"

namespace hawser::config {
namespace {

/// Returns the divisor of `whole` that is nearest to `wish`.
std::string nearest_divisor(int64_t whole, int64_t wish) {
  for (int64_t distance = 0; distance <= whole; ++distance) {
    const int64_t less = wish - distance, more = wish + distance;
    if (less >= 1 && whole % less == 0) return fmt::format("{}", less);
    if (more <= whole && whole % more == 0) return fmt::format("{}", more);
  }
  return "1";
}

bool any_window_layer(const Effective& c, bool (*bad)(int64_t layer, int64_t layers)) {
  const Value* list = c.find("/model/window_layers");
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& item) { return bad(item.integer, c.integer("/model/layers")); });
}

bool is_latent(const Effective& c) { return c.integer("/model/latent/kv_rank") > 0; }

bool rotates_heads(const Effective& c) { return c.is("/model/position", "rotary") && !is_latent(c); }

bool is_rope_dim_given(const Effective& c) {
  return c.has("/model/rope/dim") && c.origin("/model/rope/dim") != Origin::kRule;
}

bool is_odd(const Effective& c, const char* pointer) { return c.integer(pointer) % 2 != 0; }

constexpr Check kModelChecks[] = {
    {"/model/tied_head",
     {"/model/head", "/model/tied_head"},
     [](const Effective& c) { return c.is("/model/head", "score") && c.flag("/model/tied_head"); },
     "a score head has one output and the embedding has a row per token, so they cannot share a matrix",
     "use false, or leave it out"},
    {"/model/ahead",
     {"/model/head", "/model/ahead"},
     [](const Effective& c) { return c.is("/model/head", "score") && c.integer("/model/ahead") > 0; },
     "a score head predicts no tokens, so it has no multi-token prediction, but ahead is {/model/ahead}",
     "use 0, or leave it out"},
    {"/model/heads",
     {"/model/width", "/model/heads"},
     [](const Effective& c) {
       const bool derived = c.origin("/model/head_dim") == Origin::kRule || !c.is_given("/model/head_dim");
       return derived && c.integer("/model/width") % c.integer("/model/heads") != 0;
     },
     "{/model/heads} heads do not divide the width {/model/width}",
     "use {} heads, or give model.head_dim",
     [](const Effective& c) {
       return nearest_divisor(c.integer("/model/width"), c.integer("/model/heads"));
     }},
    {"/model/kv_heads",
     {"/model/heads", "/model/kv_heads"},
     [](const Effective& c) { return c.integer("/model/heads") % c.integer("/model/kv_heads") != 0; },
     "{/model/kv_heads} key/value heads do not divide the {/model/heads} heads",
     "use {}",
     [](const Effective& c) {
       return nearest_divisor(c.integer("/model/heads"), c.integer("/model/kv_heads"));
     }},
    {"/model/head_dim",
     {"/model/head_dim", "/model/position", "/model/latent/kv_rank"},
     [](const Effective& c) {
       return rotates_heads(c) && !is_rope_dim_given(c) && is_odd(c, "/model/head_dim");
     },
     "head_dim {/model/head_dim} is odd, but rotary positions rotate pairs of features",
     "use {}, or give the number of rotated features, /model/rope/dim",
     [](const Effective& c) { return fmt::format("{}", c.integer("/model/head_dim") + 1); }},
    {"/model/rope/dim",
     {"/model/rope/dim", "/model/head_dim", "/model/position", "/model/latent/kv_rank"},
     [](const Effective& c) {
       return rotates_heads(c) && is_rope_dim_given(c) &&
              (is_odd(c, "/model/rope/dim") || c.integer("/model/rope/dim") > c.integer("/model/head_dim"));
     },
     "rope.dim {/model/rope/dim} must be even and at most head_dim {/model/head_dim}",
     "use an even number such as {}",
     [](const Effective& c) {
       return fmt::format("{}", std::max<int64_t>(2, c.integer("/model/head_dim") / 2 / 2 * 2));
     }},
    {"/model/rope/dim",
     {"/model/rope/dim", "/model/latent/kv_rank"},
     [](const Effective& c) { return is_latent(c) && is_rope_dim_given(c); },
     "latent attention rotates the end of each head, not its start",
     "use /model/latent/rope_dim"},
    {"/model/latent/kv_rank",
     {"/model/latent/kv_rank"},
     [](const Effective& c) { return c.integer("/model/latent/kv_rank") == 1; },
     "kv_rank 1 is too small: RMS normalisation reduces a compressed row of one feature to its sign",
     "use 2 or more, or 0 for no latent attention"},
    {"/model/kv_heads",
     {"/model/latent/kv_rank", "/model/heads", "/model/kv_heads"},
     [](const Effective& c) {
       return is_latent(c) && c.integer("/model/kv_heads") != c.integer("/model/heads");
     },
     "latent attention needs as many key/value heads as heads, {/model/heads}, not {/model/kv_heads}",
     "use {/model/heads}, or leave it out"},
    {"/model/position",
     {"/model/latent/kv_rank", "/model/position"},
     [](const Effective& c) { return is_latent(c) && !c.is("/model/position", "rotary"); },
     "latent attention needs rotary positions, not {/model/position}",
     "use \"rotary\""},
    {"/model/latent/rope_dim",
     {"/model/latent/kv_rank", "/model/latent/rope_dim", "/model/head_dim"},
     [](const Effective& c) {
       const int64_t turned = c.integer("/model/latent/rope_dim");
       return is_latent(c) && (turned % 2 != 0 || turned >= c.integer("/model/head_dim"));
     },
     "rope_dim {/model/latent/rope_dim} must be even and below head_dim {/model/head_dim}",
     "use an even number such as {}",
     [](const Effective& c) {
       return fmt::format("{}", std::max<int64_t>(2, c.integer("/model/head_dim") / 3 / 2 * 2));
     }},
    {"/model/qk_norm",
     {"/model/latent/kv_rank", "/model/qk_norm"},
     [](const Effective& c) { return is_latent(c) && c.flag("/model/qk_norm"); },
     "latent attention normalises its compressed rows, not each head",
     "use false"},
    {"/model/sinks",
     {"/model/latent/kv_rank", "/model/sinks"},
     [](const Effective& c) { return is_latent(c) && c.flag("/model/sinks"); },
     "sinks are not supported with latent attention",
     "use false"},
    {"/model/sinks",
     {"/model/attention_softcap", "/model/sinks"},
     [](const Effective& c) { return c.flag("/model/sinks") && c.number("/model/attention_softcap") > 0; },
     "sinks are not supported with soft caps of attention scores, and attention_softcap is "
     "{/model/attention_softcap}",
     "use false, or attention_softcap 0"},
    {"/model/bias/v",
     {"/model/latent/kv_rank", "/model/bias/v"},
     [](const Effective& c) { return is_latent(c) && c.flag("/model/bias/v"); },
     "in latent attention the projection of values has no bias",
     "use false; bias.k is the bias of the compressed row"},
    {"/model/bias/norm",
     {"/model/bias/norm", "/model/norm"},
     [](const Effective& c) { return c.is("/model/norm", "rms_norm") && c.flag("/model/bias/norm"); },
     "rms_norm has no bias",
     "use false, or norm \"layer_norm\""},
    {"/model/bias/gate",
     {"/model/bias/gate", "/model/mlp"},
     [](const Effective& c) {
       return c.flag("/model/bias/gate") && (c.is("/model/mlp", "gelu") || c.is("/model/mlp", "gelu_tanh"));
     },
     "mlp {/model/mlp} has no gate that could have a bias",
     "use false, or mlp \"swiglu\", \"swiglu_clamped\", \"geglu\" or \"geglu_exact\""},
    {"/model/window_layers",
     {"/model/window_layers", "/model/layers"},
     [](const Effective& c) {
       return any_window_layer(c, [](int64_t layer, int64_t layers) { return layer >= layers; });
     },
     "{/model/window_layers} names a layer that the model of {/model/layers} layers does not have",
     "use layers from 0 to {}",
     [](const Effective& c) { return fmt::format("{}", c.integer("/model/layers") - 1); }},
    {"/model/window_layers",
     {"/model/window_layers"},
     [](const Effective& c) {
       std::vector<int64_t> layers;
       for (const Value& item : c.find("/model/window_layers")->items) layers.push_back(item.integer);
       std::sort(layers.begin(), layers.end());
       return std::adjacent_find(layers.begin(), layers.end()) != layers.end();
     },
     "{/model/window_layers} names a layer twice",
     "name each layer once"},
    {"/model/window",
     {"/model/window", "/model/window_layers"},
     [](const Effective& c) {
       return c.integer("/model/window") == 0 && c.is_asked("/model/window_layers") &&
              c.count("/model/window_layers") > 0;
     },
     "window_layers is given, but no window",
     "give the window's size in tokens, such as 1024"},
    {"/model/rope/window_theta",
     {"/model/rope/window_theta", "/model/window"},
     [](const Effective& c) {
       return c.number("/model/rope/window_theta") > 0 && c.integer("/model/window") == 0;
     },
     "{/model/rope/window_theta} has no effect: no layer has a window",
     "remove it, or give /model/window"},
    {"/model/rope/factor",
     {"/model/rope/scaling"},
     [](const Effective& c) {
       return !c.is("/model/rope/scaling", "none") && !c.is_given("/model/rope/factor");
     },
     "rope scaling {/model/rope/scaling} needs a factor",
     "give the ratio of the context to the original training context, such as 8"},
    {"/model/rope/original_context",
     {"/model/rope/scaling"},
     [](const Effective& c) {
       return c.is("/model/rope/scaling", "llama3") && !c.is_given("/model/rope/original_context");
     },
     "rope scaling \"llama3\" needs original_context",
     "give the original training context, such as 8192"},
    {"/model/rope/high_freq_factor",
     {"/model/rope/low_freq_factor", "/model/rope/high_freq_factor"},
     [](const Effective& c) {
       return c.is("/model/rope/scaling", "llama3") &&
              !(c.number("/model/rope/high_freq_factor") > c.number("/model/rope/low_freq_factor"));
     },
     "high_freq_factor {/model/rope/high_freq_factor} is not above low_freq_factor "
     "{/model/rope/low_freq_factor}",
     "use a larger one, such as 4 with low_freq_factor 1"},
    {"/model/rope/beta_fast",
     {"/model/rope/beta_fast", "/model/rope/beta_slow"},
     [](const Effective& c) {
       return c.is("/model/rope/scaling", "yarn") &&
              !(c.number("/model/rope/beta_fast") > c.number("/model/rope/beta_slow"));
     },
     "beta_fast {/model/rope/beta_fast} is not above beta_slow {/model/rope/beta_slow}",
     "use a larger one, such as 32 with beta_slow 1"},
    {"/model/vocab_size",
     {"/model/vocab_size", "/data/vocabulary"},
     [](const Effective& c) {
       return c.is("/data/vocabulary", "bytes") && c.is("/data/format", "text") &&
              c.integer("/model/vocab_size") < 256;
     },
     "vocab_size {/model/vocab_size} is too small for the 256 bytes",
     "use 256, or leave vocab_size out"},
    {"/model/vocab_size",
     {"/model/vocab_size", "/data/vocabulary", "/data/vocab_size"},
     [](const Effective& c) {
       return c.is("/data/vocabulary", "bpe") && c.is("/data/format", "text") &&
              c.integer("/model/vocab_size") < c.integer("/data/vocab_size");
     },
     "vocab_size {/model/vocab_size} is too small for the {/data/vocab_size} tokens to be learned "
     "(/data/vocab_size)",
     "leave it out, or set data.vocab_size to the same number"},
    {"/model/padding_token",
     {"/model/padding_token", "/model/vocab_size"},
     [](const Effective& c) { return c.integer("/model/padding_token") >= c.integer("/model/vocab_size"); },
     "padding_token {/model/padding_token} is not a token id of a vocabulary of {/model/vocab_size}",
     "use an id from 0 to {}, or -1 for none",
     [](const Effective& c) { return fmt::format("{}", c.integer("/model/vocab_size") - 1); }},
};

}  // namespace

std::span<const Check> model_checks() { return kModelChecks; }

}  // namespace hawser::config
