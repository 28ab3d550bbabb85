// Config import test: config.json of each family, with keys of Transformers 4 and 5, gives the right model;
// unsupported keys that matter are refused by name.
#include "engine/checkpoint/hf/hf_config.h"

#include <span>

#include "engine/checkpoint/hf/family.h"
#include "tests/checkpoint/hf_config_case.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint::hf {
namespace hf_config_test {

TEST(HfConfig, Gpt2) {
  const Json model = model_of(small("gpt2"));
  EXPECT_EQ(model["norm"], "layer_norm");
  EXPECT_EQ(model["mlp"], "gelu_tanh");
  EXPECT_EQ(model["position"], "learned");
  EXPECT_FALSE(model.contains("rope"));
  EXPECT_EQ(model["mlp_width"], 96);
  EXPECT_EQ(model["head_dim"], 6);
  EXPECT_EQ(model["context"], 32);
  EXPECT_EQ(model["norm_eps"], 1e-5);
  EXPECT_EQ(model["tied_head"], true);
  EXPECT_EQ(model["dropout"], (Json{{"embedding", 0.1}, {"attention", 0.1}, {"residual", 0.1}}));
  EXPECT_EQ(model["bias"]["q"], true);
  const Json other = model_of(with(small("gpt2"), {{"activation_function", "gelu"},
                                                   {"n_inner", 50},
                                                   {"scale_attn_weights", false},
                                                   {"tie_word_embeddings", false},
                                                   {"attn_pdrop", 0}}));
  EXPECT_EQ(other["mlp"], "gelu");
  EXPECT_EQ(other["mlp_width"], 50);
  EXPECT_EQ(other["attention_scale"], 1.0);
  EXPECT_EQ(other["tied_head"], false);
  EXPECT_EQ(other["dropout"]["attention"], 0.0);
  // The published file has many more keys, none of which changes the model.
  const Json published = with(small("gpt2"), {{"n_ctx", 1024},
                                              {"summary_type", "cls_index"},
                                              {"task_specific_params", {{"x", 1}}},
                                              {"architectures", {"GPT2LMHeadModel"}},
                                              {"n_inner", nullptr},
                                              {"reorder_and_upcast_attn", true}});
  EXPECT_EQ(model_of(published), model);
  EXPECT_EQ(model_of({{"model_type", "gpt2"}})["width"], 768);
}

TEST(HfConfig, Llama) {
  const Json model = model_of(small("llama"));
  EXPECT_EQ(model["norm"], "rms_norm");
  EXPECT_EQ(model["mlp"], "swiglu");
  EXPECT_EQ(model["norm_eps"], 1e-6);
  EXPECT_EQ(model["tied_head"], false);
  EXPECT_EQ(model["head_dim"], 6);
  EXPECT_EQ(model["rope"],
            (Json{{"theta", 10000.0}, {"scaling", "none"}, {"window_theta", 0.0}, {"dim", 6}}));
  EXPECT_EQ(model["window"], 0);
  EXPECT_EQ(model["dropout"], (Json{{"embedding", 0.0}, {"attention", 0.0}, {"residual", 0.0}}));
  for (const char* name : {"q", "k", "v", "o", "gate", "up", "down", "norm"})
    EXPECT_EQ(model["bias"][name], false) << name;
  const Json biased =
      model_of(with(small("llama"), {{"attention_bias", true}, {"mlp_bias", true}, {"head_dim", 10}}));
  for (const char* name : {"q", "k", "v", "o", "gate", "up", "down"})
    EXPECT_EQ(biased["bias"][name], true) << name;
  EXPECT_EQ(biased["head_dim"], 10);
  Json all_heads = small("llama");
  all_heads.erase("num_key_value_heads");
  EXPECT_EQ(model_of(all_heads)["kv_heads"], 4);
  EXPECT_EQ(model_of({{"model_type", "llama"}})["mlp_width"], 11008);
}

TEST(HfConfig, RotaryScalingInBothKeyStyles) {
  const Json llama3 = {{"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 16},
                       {"rope_type", "llama3"}};
  const Json yarn = {{"factor", 4.0}, {"rope_type", "yarn"},   {"beta_fast", 20},
                     {"mscale", 0.7}, {"mscale_all_dim", 0.5}, {"truncate", false}};
  const Json linear = {{"factor", 2}, {"type", "linear"}};
  for (const Json& scaling : {llama3, yarn, linear, Json{{"rope_type", "default"}}}) {
    const Json four = with(small("llama"), {{"rope_theta", 5e5}, {"rope_scaling", scaling}});
    const Json five = with(small("llama"), {{"rope_parameters", with(scaling, {{"rope_theta", 500000}})}});
    const Json both = with(four, {{"rope_parameters", five["rope_parameters"]}});
    EXPECT_EQ(model_of(four), model_of(five)) << scaling;
    EXPECT_EQ(model_of(both), model_of(five)) << scaling;
    EXPECT_EQ(model_of(four)["rope"]["theta"], 5e5);
  }
  EXPECT_EQ(model_of(with(small("llama"), {{"rope_scaling", llama3}}))["rope"],
            (Json{{"theta", 1e4},
                  {"scaling", "llama3"},
                  {"factor", 8.0},
                  {"low_freq_factor", 1.0},
                  {"high_freq_factor", 4.0},
                  {"original_context", 16},
                  {"window_theta", 0.0},
                  {"dim", 6}}));
  const Json rope = model_of(with(small("llama"), {{"rope_scaling", yarn}}))["rope"];
  EXPECT_EQ(rope["original_context"], 64);
  EXPECT_EQ(rope["beta_fast"], 20.0);
  EXPECT_EQ(rope["beta_slow"], 1.0);
  EXPECT_EQ(rope["mscale"], 0.7);
  EXPECT_EQ(rope["attention_factor"], 0.0);
  EXPECT_EQ(rope["truncate"], false);
  EXPECT_EQ(model_of(with(small("llama"), {{"rope_scaling", linear}}))["rope"]["factor"], 2.0);
  // The scaling is given by layer type and is equal for all types.
  const Json by_type = {{"full_attention", with(linear, {{"rope_theta", 1e4}})},
                        {"sliding_attention", with(linear, {{"rope_theta", 1e4}})}};
  EXPECT_EQ(model_of(with(small("qwen2"), {{"rope_parameters", by_type}}))["rope"]["scaling"], "linear");
}

TEST(HfConfig, WindowsOfEachFamily) {
  const auto windows = [](const Json& config) {
    const Json model = model_of(config);
    return model["window"].dump() + (model.contains("window_layers") ? model["window_layers"].dump() : "");
  };
  EXPECT_EQ(windows(with(small("mistral"), {{"sliding_window", 9}})), "9[0,1,2,3]");
  EXPECT_EQ(windows(with(small("mistral"), {{"sliding_window", nullptr}})), "0");
  EXPECT_EQ(windows(small("mistral")), "4096[0,1,2,3]");
  EXPECT_EQ(windows(with(small("qwen2"), {{"sliding_window", 9}})), "0");
  EXPECT_EQ(windows(with(small("qwen2"),
                         {{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 3}})),
            "9[3]");
  EXPECT_EQ(windows(with(small("qwen3"),
                         {{"use_sliding_window", true}, {"sliding_window", 9}, {"max_window_layers", 28}})),
            "0");
  EXPECT_EQ(windows(with(small("qwen3"),
                         {{"use_sliding_window", true},
                          {"sliding_window", 9},
                          {"max_window_layers", 0},
                          {"layer_types",
                           {"full_attention", "sliding_attention", "full_attention", "full_attention"}}})),
            "9[1]");
  EXPECT_EQ(windows(with(small("gemma2"), {{"sliding_window", 9}})), "9[0,2]");
  EXPECT_EQ(windows(with(small("gemma3_text"), {{"sliding_window", 9}, {"sliding_window_pattern", 2}})),
            "9[0,2]");
  EXPECT_EQ(windows(with(
                small("gemma2"),
                {{"sliding_window", nullptr},
                 {"layer_types", {"full_attention", "full_attention", "full_attention", "full_attention"}}})),
            "0");
}

TEST(HfConfig, QwenAndGemma) {
  const Json qwen2 = model_of(small("qwen2"));
  EXPECT_EQ(qwen2["bias"]["q"], true);
  EXPECT_EQ(qwen2["bias"]["v"], true);
  EXPECT_EQ(qwen2["bias"]["o"], false);
  EXPECT_EQ(qwen2["qk_norm"], false);
  const Json qwen3 = model_of(small("qwen3"));
  EXPECT_EQ(qwen3["bias"]["q"], false);
  EXPECT_EQ(qwen3["qk_norm"], true);
  EXPECT_EQ(qwen3["head_dim"], 128);
  const Json gemma =
      model_of(with(small("gemma2"), {{"query_pre_attn_scalar", 144}, {"head_dim", 8}, {"pad_token_id", 0}}));
  EXPECT_EQ(gemma["mlp"], "geglu");
  EXPECT_EQ(model_of(with(small("gemma2"), {{"hidden_activation", "gelu"}}))["mlp"], "geglu_exact");
  EXPECT_EQ(model_of(with(small("llama"), {{"hidden_act", "gelu"}}))["mlp"], "geglu_exact");
  EXPECT_EQ(gemma["norm_weight_offset"], 1.0);
  EXPECT_EQ(gemma["post_norm"], true);
  EXPECT_EQ(gemma["attention_scale"], 1.0 / 12.0);
  EXPECT_EQ(gemma["attention_softcap"], 50.0);
  EXPECT_EQ(gemma["logit_softcap"], 30.0);
  EXPECT_EQ(gemma["embedding_scale"], std::sqrt(24.0));
  EXPECT_EQ(gemma["tied_head"], true);
  const Json bare = model_of(
      with(small("gemma2"), {{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", nullptr}}));
  EXPECT_EQ(bare["attention_softcap"], 0.0);
  EXPECT_EQ(bare["logit_softcap"], 0.0);
  EXPECT_EQ(bare["head_dim"], 256);
}

TEST(HfConfig, PaddingTokenIsTheEmbeddingsPaddingIndex) {
  const auto padding = [](const char* family, const Json& id) {
    return read_config(with(small(family), {{"pad_token_id", id}}).dump(), {}, Strictness::kStrict)
        .model.padding_token;
  };
  EXPECT_EQ(padding("gemma2", 0), 0);
  EXPECT_EQ(model_of(small("gemma2"))["padding_token"], 0);
  EXPECT_EQ(model_of(small("llama"))["padding_token"], -1);
  EXPECT_EQ(padding("gemma2", nullptr), -1);
  EXPECT_EQ(padding("llama", -1), 49);
  EXPECT_EQ(padding("llama", nullptr), -1);
  EXPECT_EQ(padding("gpt2", 50256), -1);
  EXPECT_EQ(error_of([&] { padding("llama", 50); }).code(), Code::kConfigInvalid);
}

struct Refused {
  const char* family;
  Json changes;
  const char* pointer;
};

/// Expects that the pointers of the changes are named.
void expect_named(std::span<const Refused> cases) {
  for (const Refused& refused : cases) {
    const Json config = with(small(refused.family), refused.changes);
    const Error error = error_of([&] { model_of(config); });
    EXPECT_EQ(error.code(), Code::kConfigInvalid) << config;
    const Json details = Json::parse(error.details());
    ASSERT_TRUE(details.contains("problems")) << error.message();
    bool named = false;
    for (const Json& problem : details["problems"]) named = named || problem["pointer"] == refused.pointer;
    EXPECT_TRUE(named) << refused.pointer << "\n" << error.message();
    EXPECT_NE(error.message().find(refused.pointer), std::string::npos) << error.message();
  }
}

TEST(HfConfig, RefusesByNameWhatItDoesNotHonour) {
  const Refused cases[] = {
      {"gpt2", {{"activation_function", "relu"}}, "/activation_function"},
      {"gpt2", {{"scale_attn_by_inverse_layer_idx", true}}, "/scale_attn_by_inverse_layer_idx"},
      {"gpt2", {{"add_cross_attention", true}}, "/add_cross_attention"},
      {"gpt2", {{"n_head", 5}}, "/n_head"},
      {"gpt2", {{"n_embd", -1}}, "/n_embd"},
      {"gpt2", {{"n_embd", 24.5}}, "/n_embd"},
      {"gpt2", {{"n_embd", "24"}}, "/n_embd"},
      {"gpt2", {{"hidden_size", 25}}, "/hidden_size"},
      {"gpt2", {{"embd_pdrop", 1.0}}, "/embd_pdrop"},
      {"gpt2", {{"tie_word_embeddings", 1}}, "/tie_word_embeddings"},
      {"llama", {{"hidden_act", "relu"}}, "/hidden_act"},
      {"llama", {{"num_key_value_heads", 3}}, "/num_key_value_heads"},
      {"llama", {{"head_dim", 7}}, "/head_dim"},
      {"llama", {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}}, "/rope_scaling/rope_type"},
      {"llama", {{"rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}}}, "/rope_scaling/type"},
      {"llama", {{"rope_scaling", {{"type", "linear"}}}}, "/rope_scaling/factor"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 2.0}}}},
       "/rope_scaling/low_freq_factor"},
      {"llama", {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 0.5}}}}, "/rope_scaling/factor"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {"warp", 1}}}},
       "/rope_scaling/warp"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "linear"}, {"type", "yarn"}, {"factor", 2.0}}}},
       "/rope_scaling/type"},
      {"llama",
       {{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}},
        {"rope_parameters", {{"rope_type", "yarn"}, {"factor", 2.0}}}},
       "/rope_scaling/rope_type"},
      {"llama", {{"rope_scaling", 3}}, "/rope_scaling"},
      {"llama",
       {{"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
       "/rope_parameters/partial_rotary_factor"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "/partial_rotary_factor"},
      {"llama", {{"rope_theta", 0}}, "/rope_theta"},
      {"llama", {{"quantization_config", {{"bits", 4}}}}, "/quantization_config"},
      {"llama",
       {{"layer_types", {"sliding_attention", "full_attention", "full_attention", "full_attention"}}},
       "/layer_types"},
      {"llama", {{"layer_types", {"full_attention"}}}, "/layer_types"},
      {"llama",
       {{"layer_types", {"chunked_attention", "full_attention", "full_attention", "full_attention"}}},
       "/layer_types/0"},
      {"llama", {{"new_feature", true}}, "/new_feature"},
      {"mistral", {{"attention_bias", true}}, "/attention_bias"},
      {"mistral",
       {{"sliding_window", 9},
        {"layer_types", {"sliding_attention", "full_attention", "full_attention", "full_attention"}}},
       "/layer_types"},
      {"qwen2", {{"use_mrope", true}}, "/use_mrope"},
      {"qwen2", {{"rope_scaling", {{"type", "mrope"}}}}, "/rope_scaling/type"},
      {"qwen2",
       {{"layer_types", {"sliding_attention", "full_attention", "full_attention", "full_attention"}}},
       "/layer_types"},
      {"gemma2", {{"hidden_activation", "relu"}}, "/hidden_activation"},
      {"gemma2", {{"use_bidirectional_attention", true}}, "/use_bidirectional_attention"},
      {"gemma2", {{"sliding_window", nullptr}}, "/layer_types"},
      {"gemma2", {{"query_pre_attn_scalar", 0}}, "/query_pre_attn_scalar"},
  };
  expect_named(cases);
}

TEST(HfConfig, RefusesByNameWhatGptOssDoesNotHonour) {
  const Refused cases[] = {
      {"gpt_oss", {{"swiglu_limit", 8.0}}, "/swiglu_limit"},
      {"gpt_oss", {{"swiglu_alpha", 1.7}}, "/swiglu_alpha"},
      {"gpt_oss", {{"experts_per_token", 2}}, "/experts_per_token"},
      {"gpt_oss", {{"initial_context_length", 8192}}, "/initial_context_length"},
      {"gpt_oss", {{"rope_scaling", nullptr}}, "/rope_scaling"},
      {"gpt_oss", {{"sliding_window", nullptr}}, "/layer_types"},
      {"mixtral", {{"swiglu_limit", 7.0}}, "/swiglu_limit"},
      {"mixtral", {{"quantization_config", {{"quant_method", "mxfp4"}}}}, "/quantization_config"},
  };
  expect_named(cases);
}

TEST(HfConfig, ReportsAllProblemsAtOnce) {
  const Json config = with(small("llama"), {{"hidden_act", "relu"}, {"warp", 9}, {"rope_theta", "x"}});
  const Error error = error_of([&] { model_of(config); });
  EXPECT_EQ(Json::parse(error.details())["problems"].size(), 3u) << error.message();
}

TEST(HfConfig, UnknownKeysCanBeIgnoredOneByOneButNoRefusedOnes) {
  const Json config = with(small("llama"), {{"new_feature", {1, 2}}, {"other", 1}});
  EXPECT_EQ(error_of([&] { model_of(config, {"new_feature"}); }).code(), Code::kConfigInvalid);
  EXPECT_EQ(model_of(config, {"new_feature", "other"}), model_of(small("llama")));
  const Json refused = with(small("llama"), {{"quantization_config", {{"bits", 4}}}});
  EXPECT_EQ(error_of([&] { model_of(refused, {"quantization_config"}); }).code(), Code::kConfigInvalid);
}

TEST(HfConfig, RefusesWhatIsNoConfig) {
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string(), std::string(1'000'000, '['),
        std::string("{\"a\": NaN}"), std::string("{\"a\": 1, \"a\": 2}"),
        "{\"a\":" + std::string(100'000, '{'), std::string("{\"a\": \"\xff\"}")})
    EXPECT_EQ(error_of([&] { model_json(text, {}); }).code(), Code::kConfigParse) << text.substr(0, 30);
  for (const char* text : {"{}", R"({"model_type": "bert"})", R"({"model_type": 3})"}) {
    const Error error = error_of([&] { model_json(text, {}); });
    EXPECT_EQ(error.code(), Code::kConfigInvalid);
    EXPECT_NE(error.message().find("gpt2, llama, mistral, qwen2, qwen3, gemma2, gemma3_text"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace hf_config_test
}  // namespace hawser::checkpoint::hf
