// Config export test: in every family, a config.json written by Hawser describes exactly the model from which
// it was made.
#include <algorithm>
#include <cmath>

#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/config/config_tree.h"
#include "engine/config/model_fields.h"
#include "engine/config/resolved_config.h"
#include "tests/checkpoint/hf_config_case.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint::hf {
namespace hf_config_made_test {

using Cases = std::vector<std::pair<std::string, Json>>;

Cases dense_cases() {
  const Json yarn = {{"factor", 4.0},
                     {"rope_type", "yarn"},
                     {"original_max_position_embeddings", 16},
                     {"attention_factor", 1.25}};
  return {
      {"gpt2", small("gpt2")},
      {"gpt2", with(small("gpt2"),
                    {{"activation_function", "gelu"}, {"n_inner", 50}, {"scale_attn_weights", false}})},
      {"llama", with(small("llama"), {{"attention_bias", true}, {"mlp_bias", true}, {"head_dim", 10}})},
      {"llama",
       with(small("llama"), {{"rope_scaling", yarn}, {"rope_theta", 77.0}, {"tie_word_embeddings", true}})},
      {"mistral", with(small("mistral"),
                       {{"sliding_window", 9}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}})},
      {"qwen2",
       with(small("qwen2"), {{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 3}})},
      {"qwen2",
       with(small("qwen2"),
            {{"use_sliding_window", true},
             {"sliding_window", 9},
             {"head_dim", 10},
             {"layer_types", {"sliding_attention", "full_attention", "full_attention", "full_attention"}}})},
      {"qwen3", with(small("qwen3"), {{"attention_bias", true}})},
      {"gemma2",
       with(small("gemma2"),
            {{"query_pre_attn_scalar", 20}, {"sliding_window", 9}, {"final_logit_softcapping", nullptr}})}};
}

Cases later_cases() {
  return {
      {"gemma3_text", with(small("gemma3_text"), {{"sliding_window", 9}, {"_sliding_window_pattern", 3}})},
      {"gemma3_text",
       with(small("gemma3_text"),
            {{"sliding_window", 9},
             {"layer_types", {"sliding_attention", "full_attention", "full_attention", "sliding_attention"}},
             {"rope_theta", 5000.0},
             {"rope_local_base_freq", 300.0},
             {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}})},
      {"mixtral", with(small("mixtral"), {{"num_local_experts", 4}, {"sliding_window", 7}})},
      {"qwen2_moe", with(small("qwen2_moe"), {{"num_experts", 6},
                                              {"num_experts_per_tok", 3},
                                              {"decoder_sparse_step", 2},
                                              {"qkv_bias", false}})},
      {"qwen3_moe", with(small("qwen3_moe"),
                         {{"num_local_experts", 6}, {"mlp_only_layers", {1}}, {"norm_topk_prob", true}})},
      {"dots1", with(small("dots1"), {{"n_routed_experts", 8},
                                      {"num_experts_per_tok", 2},
                                      {"n_group", 4},
                                      {"topk_group", 2},
                                      {"first_k_dense_replace", 1},
                                      {"n_shared_experts", 2},
                                      {"sliding_window", 5},
                                      {"max_window_layers", 2},
                                      {"routed_scaling_factor", 2.5}})},
      {"deepseek_v3", with(small("deepseek_v3"),
                           {{"n_routed_experts", 8},
                            {"num_key_value_heads", nullptr},
                            {"kv_lora_rank", 12},
                            {"q_lora_rank", nullptr},
                            {"qk_rope_head_dim", 6},
                            {"qk_nope_head_dim", 10},
                            {"v_head_dim", 12},
                            {"n_group", 1},
                            {"topk_group", 1},
                            {"attention_bias", true},
                            {"rope_interleave", false},
                            {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"mscale_all_dim", 0.7}}}})},
      {"deepseek_v3",
       with(small("deepseek_v3"),
            {{"num_key_value_heads", nullptr},
             {"rope_scaling",
              {{"type", "yarn"}, {"factor", 40.0}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}}}})}};
}

Cases latest_cases() {
  return {
      {"glm4_moe", with(small("glm4_moe"), {{"head_dim", 44},  // 44 * (30.0 / 44) is below 30
                                            {"partial_rotary_factor", 0.69},
                                            {"attention_bias", true},
                                            {"norm_topk_prob", false},
                                            {"n_group", 4},
                                            {"topk_group", 2}})},
      {"glm4_moe", with(small("glm4_moe"),
                        {{"head_dim", 12},
                         {"use_qk_norm", true},
                         {"attention_bias", true},
                         {"rope_parameters",
                          {{"rope_type", "linear"}, {"factor", 2.0}, {"partial_rotary_factor", 1.0 / 3}}}})},
      {"gpt_oss", with(small("gpt_oss"), {{"num_local_experts", 6}, {"num_experts_per_tok", 3}})},
      {"gpt_oss",
       with(small("gpt_oss"),
            {{"attention_bias", false},
             {"sliding_window", 9},
             {"layer_types", {"full_attention", "full_attention", "sliding_attention", "full_attention"}},
             {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}}}})}};
}

TEST(HfConfig, AMadeConfigMeansTheModelItWasMadeFrom) {
  Cases cases = dense_cases();
  for (const Cases& more : {later_cases(), latest_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  for (const std::string& family : family_names())
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const auto& c) { return c.first == family; }))
        << "no case of " << family;
  for (const auto& [family, config] : cases) {
    const nn::ModelConfig model = read_config(config.dump(), {}, Strictness::kStrict).model;
    EXPECT_EQ(family_of(model), family);
    const std::string made = make_config(family, model, "bfloat16", "");
    EXPECT_EQ(model_of(Json::parse(made)), model_of(config)) << made;
    EXPECT_TRUE(config::model_differences(read_config(made, {}, Strictness::kStrict).model, model).empty());
    EXPECT_EQ(Json::parse(made)["torch_dtype"], "bfloat16");
  }
  // A mistral model without a window is a llama model.
  nn::ModelConfig model = read_config(small("llama").dump(), {}, Strictness::kStrict).model;
  EXPECT_EQ(family_of(model), "llama");
  model.position = nn::Position::kNone;
  EXPECT_EQ(family_of(model), "");
  EXPECT_EQ(
      obstacles(model),
      "gpt2: positions are not learned; llama, mistral, qwen2, qwen3, gemma2, gemma3_text: positions are "
      "not rotary; mixtral, "
      "qwen2_moe, qwen3_moe, dots1, deepseek_v3, glm4_moe, gpt_oss: there are no experts");
}

/// Zeros replace the biases that GPT-2 always has, but a single tensor holds those of q, k and v.
TEST(HfConfig, AGpt2WithoutBiasesIsOneAllTheSame) {
  nn::ModelConfig model = read_config(small("gpt2").dump(), {}, Strictness::kStrict).model;
  model.bias = {false, false, false, false, false, false, false, false};
  EXPECT_EQ(family_of(model), "gpt2");
  model.bias.k = true;
  EXPECT_EQ(obstacle("gpt2", model), "only some of q, k and v have a bias");
}

/// RMSNorm may have a bias in our struct, although no rule lets a config request it. It stands for any future
/// key that the families cannot express.
TEST(HfConfig, WhatAFamilysConfigLosesIsAnObstacle) {
  nn::ModelConfig model = read_config(small("llama").dump(), {}, Strictness::kStrict).model;
  model.bias.norm = true;
  EXPECT_EQ(obstacle("llama", model), "its config.json cannot express /bias/norm");
  EXPECT_EQ(family_of(model), "");
}

/// The published config.json, except for the fp8 storage of its weights and the layer that predicts one more
/// token.
TEST(HfConfig, DeepseekV3IsThePresetOfItsName) {
  const Json scaling = {{"beta_fast", 32},       {"beta_slow", 1},
                        {"factor", 40},          {"mscale", 1.0},
                        {"mscale_all_dim", 1.0}, {"original_max_position_embeddings", 4096},
                        {"type", "yarn"}};
  const Json published = {{"model_type", "deepseek_v3"}, {"max_position_embeddings", 163840},
                          {"rope_theta", 10000},         {"rope_scaling", scaling},
                          {"topk_method", "noaux_tc"},   {"scoring_func", "sigmoid"}};
  const nn::ModelConfig read = read_config(published.dump(), {}, Strictness::kStrict).model;
  const nn::ModelConfig preset =
      config::resolve(config::ConfigTree::from_json(R"({"preset": "deepseek-v3-671b"})")).model;
  EXPECT_EQ(config::model_differences(read, preset), std::vector<std::string>());
  const double mscale = 0.1 * std::log(40.0) + 1.0;
  EXPECT_DOUBLE_EQ(read.attention_scale, mscale * mscale / std::sqrt(192.0));
  EXPECT_DOUBLE_EQ(preset.attention_scale, read.attention_scale);
}

/// The published config.json, except for its padding token and the layer that predicts one more token.
TEST(HfConfig, Glm45AirIsThePresetOfItsName) {
  const Json published = {{"model_type", "glm4_moe"},
                          {"architectures", {"Glm4MoeForCausalLM"}},
                          {"attention_bias", true},
                          {"attention_dropout", 0.0},
                          {"eos_token_id", {151329, 151336, 151338}},
                          {"head_dim", 128},
                          {"hidden_act", "silu"},
                          {"hidden_size", 4096},
                          {"partial_rotary_factor", 0.5},
                          {"initializer_range", 0.02},
                          {"intermediate_size", 10944},
                          {"max_position_embeddings", 131072},
                          {"moe_intermediate_size", 1408},
                          {"norm_topk_prob", true},
                          {"num_attention_heads", 96},
                          {"n_group", 1},
                          {"topk_group", 1},
                          {"n_routed_experts", 128},
                          {"n_shared_experts", 1},
                          {"routed_scaling_factor", 1.0},
                          {"num_experts_per_tok", 8},
                          {"first_k_dense_replace", 1},
                          {"num_hidden_layers", 46},
                          {"num_key_value_heads", 8},
                          {"rms_norm_eps", 1e-05},
                          {"rope_scaling", nullptr},
                          {"rope_theta", 1000000},
                          {"tie_word_embeddings", false},
                          {"use_qk_norm", false},
                          {"vocab_size", 151552}};
  const nn::ModelConfig read = read_config(published.dump(), {}, Strictness::kStrict).model;
  const nn::ModelConfig preset =
      config::resolve(config::ConfigTree::from_json(R"({"preset": "glm-4.5-air"})")).model;
  EXPECT_EQ(config::model_differences(read, preset), std::vector<std::string>());
  EXPECT_EQ(family_of(preset), "glm4_moe");
  // Transformers 5 has the same defaults, and the factor in rope_parameters.
  const Json absent = {{"model_type", "glm4_moe"},
                       {"head_dim", 128},
                       {"attention_bias", true},
                       {"rope_parameters", {{"rope_theta", 1e6}, {"rope_type", "default"}}}};
  const nn::ModelConfig defaults = read_config(absent.dump(), {}, Strictness::kStrict).model;
  EXPECT_EQ(config::model_differences(defaults, preset), std::vector<std::string>());
}

/// The published config.json of gpt-oss-20b, except for its padding token.
TEST(HfConfig, GptOss20bIsThePresetOfItsName) {
  Json types = Json::array();
  for (int i = 0; i < 24; ++i) types.push_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  const Json scaling = {{"beta_fast", 32.0},   {"beta_slow", 1.0},
                        {"factor", 32.0},      {"original_max_position_embeddings", 4096},
                        {"rope_type", "yarn"}, {"truncate", false}};
  const Json quantisation = {{"quant_method", "mxfp4"},
                             {"modules_to_not_convert", {"model.layers.*.self_attn", "lm_head"}}};
  const Json published = {{"model_type", "gpt_oss"},
                          {"architectures", {"GptOssForCausalLM"}},
                          {"attention_bias", true},
                          {"attention_dropout", 0.0},
                          {"eos_token_id", 200002},
                          {"experts_per_token", 4},
                          {"head_dim", 64},
                          {"hidden_act", "silu"},
                          {"hidden_size", 2880},
                          {"initial_context_length", 4096},
                          {"initializer_range", 0.02},
                          {"intermediate_size", 2880},
                          {"layer_types", types},
                          {"max_position_embeddings", 131072},
                          {"num_attention_heads", 64},
                          {"num_experts_per_tok", 4},
                          {"num_hidden_layers", 24},
                          {"num_key_value_heads", 8},
                          {"num_local_experts", 32},
                          {"output_router_logits", false},
                          {"quantization_config", quantisation},
                          {"rms_norm_eps", 1e-05},
                          {"rope_scaling", scaling},
                          {"rope_theta", 150000},
                          {"router_aux_loss_coef", 0.9},
                          {"sliding_window", 128},
                          {"swiglu_limit", 7.0},
                          {"tie_word_embeddings", false},
                          {"use_cache", true},
                          {"vocab_size", 201088}};
  const auto preset = [](const std::string& name) {
    return config::resolve(config::ConfigTree::from_json("{\"preset\": \"" + name + "\"}")).model;
  };
  const nn::ModelConfig read = read_config(published.dump(), {}, Strictness::kStrict).model;
  EXPECT_EQ(config::model_differences(read, preset("gpt-oss-20b")), std::vector<std::string>());
  EXPECT_EQ(family_of(read), "gpt_oss");
  // Transformers' defaults for absent keys describe gpt-oss-120b.
  const nn::ModelConfig absent = read_config(R"({"model_type": "gpt_oss"})", {}, Strictness::kStrict).model;
  EXPECT_EQ(config::model_differences(absent, preset("gpt-oss-120b")), std::vector<std::string>());
}

TEST(HfConfig, GptOssHasAFamilyOfItsOwn) {
  const nn::ModelConfig oss = read_config(small("gpt_oss").dump(), {}, Strictness::kStrict).model;
  const auto lacks = [&](auto change) {
    nn::ModelConfig model = oss;
    change(&model);
    EXPECT_EQ(family_of(model), "");
    return obstacle("gpt_oss", model);
  };
  EXPECT_EQ(lacks([](auto* m) { m->sinks = false; }), "there are no attention sinks");
  EXPECT_EQ(lacks([](auto* m) { m->mlp = nn::MlpKind::kSwiGlu; }), "the MLP is not swiglu_clamped");
  EXPECT_EQ(lacks([](auto* m) { m->bias.router = false; }), "the router has no bias");
  EXPECT_EQ(lacks([](auto* m) { m->bias.gate = m->bias.up = m->bias.down = false; }),
            "experts have no biases");
  EXPECT_EQ(lacks([](auto* m) { m->bias.down = false; }), "only some projections of the MLP have a bias");
  EXPECT_EQ(lacks([](auto* m) { m->moe.normalize = false; }), "weights are not normalised");
  EXPECT_EQ(lacks([](auto* m) { m->moe.layers.has[2] = false; }), "a layer is dense");
  EXPECT_EQ(lacks([](auto* m) { m->window[2] = 64; }), "sliding windows differ in size");
  EXPECT_EQ(obstacle("mixtral", oss), "the MLP has biases");
}

TEST(HfConfig, OnlyGlmRotatesAPartOfEachHead) {
  nn::ModelConfig model = read_config(small("llama").dump(), {}, Strictness::kStrict).model;
  model.rope.dim = 2;
  EXPECT_EQ(obstacle("llama", model), "its config.json cannot express /rope/dim");
  EXPECT_EQ(family_of(model), "");
  const auto problem = [](const Json& changes) {
    return error_of([&] { model_of(with(small("glm4_moe"), changes)); }).message();
  };
  const Json quarter = {{"partial_rotary_factor", 0.25}}, twice = {{"partial_rotary_factor", 2}};
  for (const auto& [changes, words] :
       {std::pair<Json, std::string>{{{"partial_rotary_factor", 0.5}, {"rope_parameters", quarter}},
                                     "/partial_rotary_factor is 0.5, but rope_parameters has 0.25"},
        {{{"head_dim", 6}, {"partial_rotary_factor", 0.5}}, "/partial_rotary_factor is 0.5 and rotates 3"},
        {{{"rope_parameters", twice}}, "/rope_parameters/partial_rotary_factor is 2 and rotates 12"}})
    EXPECT_NE(problem(changes).find(words), std::string::npos) << problem(changes);
}

TEST(HfConfig, LayersWithAWindowRotateWithoutScaling) {
  const Json rotations = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
      {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 1e4}}}};
  const Error error = error_of([&] {
    model_of(with(small("gemma3_text"), {{"rope_parameters", rotations}}));
  });
  EXPECT_EQ(error.code(), Code::kConfigInvalid);
  EXPECT_NE(error.message().find("/rope_parameters/sliding_attention"), std::string::npos) << error.message();
}

}  // namespace hf_config_made_test
}  // namespace hawser::checkpoint::hf
