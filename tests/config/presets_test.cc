// Preset test: every preset is a valid config of the model that it names. Its parameters are counted against
// the published number.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/config/problem_list.h"
#include "tests/config/published_parameters.h"

namespace hawser::config {
namespace presets_test {

/// Returns the number of parameters of a decoder-only transformer, from its shapes.
int64_t count_parameters(const ModelConfig& m) {
  const auto linear = [](int64_t in, int64_t out, bool bias) { return in * out + (bias ? out : 0); };
  const int64_t q = m.heads * m.head_dim, kv = m.kv_heads * m.head_dim;
  const int64_t norm = m.width * (m.bias.norm ? 2 : 1);
  const bool gated = nn::is_gated(m.mlp);
  const auto mlp = [&](int64_t features) {
    return linear(m.width, features, m.bias.up) + linear(features, m.width, m.bias.down) +
           (gated ? linear(m.width, features, m.bias.gate) : 0);
  };
  const nn::LatentConfig& l = m.latent;
  const int64_t plain = linear(m.width, q, m.bias.q) + linear(m.width, kv, m.bias.k) +
                        linear(m.width, kv, m.bias.v) + linear(q, m.width, m.bias.o);
  const int64_t latent = m.width * l.q_rank + l.q_rank + l.q_rank * q + m.width * (l.kv_rank + l.rope_dim) +
                         l.kv_rank + l.kv_rank * m.heads * (m.head_dim - l.rope_dim + l.value_dim) +
                         m.heads * l.value_dim * m.width;
  const int64_t attention =
      (m.is_latent() ? latent : plain) + (m.qk_norm ? 2 * m.head_dim : 0) + (m.sinks ? m.heads : 0);
  const int64_t sparse =
      m.moe.experts * (m.width + mlp(m.moe.width) + (m.moe.has_bias() ? 1 : 0) + (m.bias.router ? 1 : 0)) +
      (m.moe.shared_width > 0 ? mlp(m.moe.shared_width) : 0) + (m.moe.shared_gate ? m.width : 0);
  int64_t layers = m.layers * (attention + norm * (m.post_norm ? 4 : 2));
  for (int64_t i = 0; i < m.layers; ++i) layers += m.is_sparse(i) ? sparse : mlp(m.mlp_width);
  const int64_t positions = m.position == Position::kLearned ? m.context * m.width : 0;
  return m.vocab_size * m.width * (m.tied_head ? 1 : 2) + positions + layers + norm;
}

TEST(ConfigPresets, HaveThePublishedNumberOfParameters) {
  const std::map<std::string, int64_t>& published = testing::published_parameters();
  for (const auto& [name, parameters] : published) {
    const ConfigTree tree = ConfigTree::from_json("{\"preset\": \"" + name + "\"}");
    EXPECT_EQ(count_parameters(resolve(tree).model), parameters) << name;
  }
  EXPECT_EQ(preset_names().size(), published.size() + 1) << "and quickstart";
}

TEST(ConfigPresets, ResolveByNameAndAsAConfigToEdit) {
  for (const std::string& name : preset_names()) {
    const ConfigTree by_name = ConfigTree::from_json("{\"preset\": \"" + name + "\"}");
    const ConfigTree as_file = ConfigTree::from_json(preset_json(name));
    EXPECT_EQ(listing(validate(by_name)), "") << name;
    EXPECT_EQ(resolved_json(by_name), resolved_json(as_file)) << name;
    EXPECT_EQ(resolve(by_name).model.window.size(), static_cast<size_t>(resolve(by_name).model.layers));
  }
}

TEST(ConfigPresets, CarryTheirPeculiarities) {
  const auto model = [](const char* name) {
    return resolve(ConfigTree::from_json(std::string("{\"preset\": \"") + name + "\"}")).model;
  };
  const ModelConfig gemma = model("gemma-2-2b");
  EXPECT_EQ(gemma.window[0], 4096);
  EXPECT_EQ(gemma.window[1], 0);
  EXPECT_EQ(gemma.embedding_scale, std::sqrt(2304.0));
  EXPECT_EQ(gemma.attention_scale, 1 / 16.0);
  EXPECT_EQ(gemma.norm_weight_offset, 1.0);
  EXPECT_FALSE(gemma.bias.norm);
  EXPECT_EQ(model("gemma-3-1b").window[4], 512);
  EXPECT_EQ(model("gemma-3-1b").window[5], 0);
  EXPECT_EQ(model("gemma-3-1b").rope.window_theta, 10000.0);
  EXPECT_EQ(model("llama-3.2-1b").rope.factor, 32.0);
  EXPECT_EQ(model("llama-3.1-405b").kv_heads, 8);
  EXPECT_EQ(model("mistral-7b").window[31], 4096);
  EXPECT_TRUE(model("qwen2.5-7b").bias.q);
  EXPECT_FALSE(model("qwen2.5-7b").bias.o);
  EXPECT_TRUE(model("qwen3-8b").qk_norm);
  EXPECT_EQ(model("glm-4.5-air").rope.dim, 64);
  EXPECT_EQ(model("qwen3-8b").rope.dim, 128);
  EXPECT_TRUE(model("gpt2-1558m").bias.down);
  const ModelConfig oss = model("gpt-oss-20b");
  EXPECT_EQ(oss.window[0], 128);
  EXPECT_EQ(oss.window[23], 0);
  EXPECT_EQ(oss.mlp, nn::MlpKind::kSwiGluClamped);
  EXPECT_TRUE(oss.sinks && oss.bias.router && oss.bias.down);
  EXPECT_FALSE(oss.rope.truncate);
}

TEST(ConfigPresets, QuickstartIsSmallAndNeedsOnlyAFile) {
  ConfigTree tree = ConfigTree::from_json(R"({"preset": "quickstart"})");
  tree.set("/data/path", "README.md");
  const ResolvedConfig resolved = resolve(tree);
  EXPECT_EQ(resolved.model.vocab_size, 256);
  EXPECT_GT(count_parameters(resolved.model), 1000000);
  EXPECT_LT(count_parameters(resolved.model), 3000000);
  EXPECT_EQ(resolved.data.sources.at(0).path, "README.md");
}

int64_t warmup_of(const ConfigTree& tree) { return resolve(tree).schedule.warmup_steps; }

TEST(ConfigPresets, TheWarmupIsAtMostAnEighthOfAShorterRun) {
  for (ConfigTree tree :
       {ConfigTree::from_json(R"({"preset": "quickstart"})"), ConfigTree::from_preset("quickstart")}) {
    tree.set("/data/path", "README.md");
    EXPECT_EQ(warmup_of(tree), 60);
    tree.set("/train/steps", "40");
    EXPECT_EQ(warmup_of(tree), 5);
    const ConfigTree again = ConfigTree::from_json(tree.to_json());
    EXPECT_EQ(resolved_json(again), resolved_json(tree));
    const std::vector<uint8_t> binary = tree.to_binary();
    EXPECT_EQ(resolved_json(ConfigTree::from_binary(binary.data(), binary.size())), resolved_json(tree));
    tree.set("/train/steps", "2000");
    EXPECT_EQ(warmup_of(tree), 60);
    tree.set("/schedule/decay_steps", "80");
    EXPECT_EQ(warmup_of(tree), 10);
    tree.set("/schedule/warmup_steps", "70");
    EXPECT_EQ(warmup_of(tree), 70) << "what the user sets stays";
    tree.set("/schedule/warmup_steps", "90");
    EXPECT_CONTAINS(listing(validate(tree)), "90 warm-up steps do not fit");
  }
}

TEST(ConfigPresets, UnknownNamesGetASuggestion) {
  const Error error = error_of([] { preset_json("gpt2-124"); });
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_CONTAINS(error.message(), "did you mean \"gpt2-124m\"?");
  EXPECT_CONTAINS(error_of([] { preset_json("bert"); }).message(),
                  "there are: deepseek-v3-671b, gemma-2-2b, gemma-3-1b, glm-4.5-air, gpt-oss-120b, "
                  "gpt-oss-20b, gpt2-124m");
}

}  // namespace presets_test
}  // namespace hawser::config
