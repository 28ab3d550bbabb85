// Hugging Face cases: unsupported config.json files, and weights that do not match their model.
#include <sys/stat.h>

#include <filesystem>

#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace hugging_face_cases {

namespace fs = std::filesystem;

constexpr const char* kConfig = "model/config.json";
constexpr const char* kWeights = "model/model.safetensors";
constexpr const char* kIndex = "model/model.safetensors.index.json";

Case folder(const std::string& what, int32_t status, std::vector<std::string> words,
            const std::function<void(Site&)>& change, const char* ignore_keys = nullptr) {
  return {what, status, std::move(words), [change, ignore_keys](Site& site) {
            const std::string path = site.hugging_face();
            change(site);
            return hws_checkpoint_import(path.c_str(), site.path("out").c_str(), ignore_keys);
          }};
}

/// A row with a GPT-2's config.json into which `patch` is merged.
Case gpt2(const std::string& patch, std::vector<std::string> words) {
  return folder("gpt2 with `" + patch + "`", HWS_CONFIG_INVALID, std::move(words), [patch](Site& site) {
    site.change_json(kConfig, [&](Json& json) { json.merge_patch(Json::parse(patch)); });
  });
}

/// Makes a row with this config.json.
Case config(const std::string& text, std::vector<std::string> words, int32_t status = HWS_CONFIG_INVALID) {
  return folder("`" + text + "`", status, std::move(words),
                [text](Site& site) { site.write(kConfig, text); });
}

Case weights(const std::string& what, std::vector<std::string> words,
             const std::function<void(Json&)>& change) {
  return folder(what, HWS_CHECKPOINT_INCOMPATIBLE, std::move(words),
                [change](Site& site) { site.change_header(kWeights, change); });
}

/// A row with an index instead of model.safetensors.
Case index(const std::string& what, int32_t status, std::vector<std::string> words, const std::string& text) {
  return folder(what, status, std::move(words), [text](Site& site) {
    fs::rename(site.path(kWeights), site.path("model/part.safetensors"));
    site.write(kIndex, text);
  });
}

/// Returns rows with classifiers of several labels, and a language model's weights under a reward model's
/// config.
std::vector<Case> scores() {
  return {
      gpt2(R"({"architectures": ["GPT2ForSequenceClassification"]})",
           {"/num_labels means 2 labels", "with one label"}),
      gpt2(
          R"({"architectures": ["GPT2ForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}})",
          {"/id2label means 3 labels", "with one label"}),
      gpt2(
          R"({"architectures": ["GPT2ForSequenceClassification"], "num_labels": 1, "eos_token_id": [2, 3], "pad_token_id": 3})",
          {"/pad_token_id is 3, which is also in eos_token_id", "Set pad_token_id to null"}),
      folder("a reward model without its head", HWS_CHECKPOINT_INCOMPATIBLE, {"missing (1): score.weight"},
             [](Site& site) {
               site.change_json(kConfig, [](Json& json) {
                 json["architectures"] = {"GPT2ForSequenceClassification"}, json["num_labels"] = 1;
               });
             }),
  };
}

std::vector<Case> configs() {
  return {
      config("", {"config.json is not valid JSON", "byte"}, HWS_CONFIG_PARSE),
      config("[]", {"config.json is not a JSON object"}, HWS_CONFIG_PARSE),
      config(R"({"model_type": "gpt2", "model_type": "llama"})", {"'model_type' appears twice"},
             HWS_CONFIG_PARSE),
      folder("1,000,000 open brackets", HWS_CONFIG_PARSE, {"config.json", "nested deeper than 32"},
             [](Site& site) { site.write(kConfig, "{\"a\":" + std::string(1000000, '[')); }),
      folder("2 MiB of config.json", HWS_CHECKPOINT_CORRUPT,
             {"config.json has 2097152 bytes", "at most 1048576"},
             [](Site& site) { site.write(kConfig, std::string(2 << 20, ' ')); }),
      config("{}", {"/model_type is absent", "gpt2, llama"}),
      config(R"({"model_type": "bert"})", {"/model_type is \"bert\"", "supported are gpt2"}),
      config(R"({"model_type": 5})", {"/model_type is 5", "supported are"}),
      gpt2(R"({"n_head": 3})", {"/n_head is 3", "does not divide n_embd 16"}),
      gpt2(R"({"n_layer": 0})", {"/n_layer is 0", "from 1 to 10000"}),
      gpt2(R"({"n_layer": 2147483647})", {"/n_layer is 2147483647", "from 1 to 10000"}),
      gpt2(R"({"n_embd": "16"})", {"/n_embd is \"16\"", "an integer"}),
      gpt2(R"({"vocab_size": 1e30})", {"/vocab_size", "an integer from 1 to"}),
      gpt2(R"({"hidden_size": 99})", {"/hidden_size is 99, but n_embd is 16", "remove the wrong one"}),
      gpt2(R"({"activation_function": "relu"})", {"/activation_function is \"relu\"", "gelu_new"}),
      gpt2(R"({"attn_pdrop": 1.0})", {"/attn_pdrop is 1.0", "a number from 0"}),
      gpt2(R"({"is_encoder_decoder": true})", {"/is_encoder_decoder is true", "only decoders"}),
      gpt2(R"({"scale_attn_by_inverse_layer_idx": true})",
           {"/scale_attn_by_inverse_layer_idx", "not supported"}),
      gpt2(R"({"quantization_config": {"bits": 4}})",
           {"/quantization_config", "{\"bits\":4}", "not supported"}),
      gpt2(R"({"quantization_config": {"quant_method": "gptq", "bits": 4}})",
           {"/quantization_config has quant_method \"gptq\"", "bitsandbytes' nf4"}),
      gpt2(R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": true}})",
           {"/quantization_config is bitsandbytes in 8 bits", "only nf4"}),
      gpt2(R"({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": true}})",
           {"/quantization_config has bnb_4bit_quant_type \"fp4\"", "only \"nf4\""}),
      gpt2(R"({"sparse_mode": true, "n_head": 3})",
           {"2 problems", "/sparse_mode", "init.ignore_keys", "/n_head"}),
      folder("a value that is too long to show, not in ASCII", HWS_CONFIG_INVALID,
             {"/n_layer is \"\xc3\xa4", "...", "an integer"},
             [](Site& site) {
               site.change_json(kConfig, [](Json& json) {
                 std::string text = "a";
                 for (int i = 0; i < 100; ++i) text += "\xc3\xa4";
                 json["n_layer"] = text.substr(1);
               });
             }),
      config(R"({"model_type": "llama", "num_attention_heads": 8, "num_key_value_heads": 3})",
             {"/num_key_value_heads is 3", "does not divide num_attention_heads 8"}),
      config(R"({"model_type": "llama", "rope_scaling": {"rope_type": "longrope"}})",
             {"/rope_scaling", "longrope"}),
      config(R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8}})",
             {"/rope_scaling"}),
      config(R"({"model_type": "gemma2", "num_hidden_layers": 2, "layer_types": ["full_attention"]})",
             {"/layer_types has 1 entries for 2 layers"}),
      config(R"({"model_type": "qwen2", "hidden_act": "relu"})", {"/hidden_act is \"relu\"", "silu"}),
      config(R"({"model_type": "mistral", "head_dim": 7})", {"/head_dim is 7", "even"}),
  };
}

std::vector<Case> configs_of_experts() {
  return {
      config(R"({"model_type": "mixtral", "router_jitter_noise": 0.1})", {"/router_jitter_noise is not 0"}),
      config(R"({"model_type": "mixtral", "num_local_experts": 8, "num_experts": 4})",
             {"/num_experts is 4, but num_local_experts is 8", "remove the wrong one"}),
      config(R"({"model_type": "qwen3_moe", "output_router_logits": true})",
             {"/output_router_logits is true", "moe.aux_loss"}),
      config(R"({"model_type": "qwen3_moe", "num_experts": 1})", {"/num_experts is 1", "2 or more"}),
      config(R"({"model_type": "qwen2_moe", "use_sliding_window": true})", {"/use_sliding_window is true"}),
      config(R"({"model_type": "qwen2_moe", "num_hidden_layers": 2, "mlp_only_layers": [0, 1]})",
             {"/model_type", "no layer has experts"}),
      config(R"({"model_type": "dots1", "n_routed_experts": 8, "scoring_func": "softmax"})",
             {"/scoring_func is \"softmax\"", "noaux_tc"}),
      config(R"({"model_type": "dots1", "n_routed_experts": 8, "moe_layer_freq": 2})",
             {"/moe_layer_freq is not 1"}),
      config(R"({"model_type": "deepseek_v3", "num_nextn_predict_layers": 9})",
             {"/num_nextn_predict_layers is 9"}),
      config(R"({"model_type": "deepseek_v3", "num_key_value_heads": 8})",
             {"/num_key_value_heads is 8", "128 heads"}),
      config(R"({"model_type": "deepseek_v3", "qk_rope_head_dim": 5})",
             {"/qk_rope_head_dim is 5", "even number"}),
      config(R"({"model_type": "deepseek_v3", "qk_nope_head_dim": 200})",
             {"/qk_nope_head_dim is 200", "264 features", "at most 256"}),
      config(R"({"model_type": "deepseek_v3", "mlp_bias": true})", {"/mlp_bias"}),
      config(R"({"model_type": "glm4_moe", "head_dim": 128, "partial_rotary_factor": 0.04})",
             {"/partial_rotary_factor is 0.04", "5 of the 128 features", "an even number from 2 to 128"}),
      config(
          R"({"model_type": "glm4_moe", "head_dim": 128, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 1.5}})",
          {"/rope_parameters/partial_rotary_factor is 1.5", "192 of the 128 features"}),
      config(
          R"({"model_type": "glm4_moe", "head_dim": 128, "partial_rotary_factor": 0.5, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}})",
          {"/partial_rotary_factor is 0.5", "rope_parameters has 0.25", "remove the wrong one"}),
      config(R"({"model_type": "glm4_moe", "head_dim": 128, "mlp_bias": true})", {"/mlp_bias"}),
      config(R"({"model_type": "gpt_oss", "swiglu_limit": 8.0})",
             {"/swiglu_limit is 8.0", "only 7 is supported"}),
      config(R"({"model_type": "gpt_oss", "swiglu_alpha": 1.5})", {"/swiglu_alpha is 1.5", "only 1.702"}),
      config(R"({"model_type": "gpt_oss", "experts_per_token": 2})",
             {"/experts_per_token is 2, but num_experts_per_tok is 4", "remove the wrong one"}),
      config(R"({"model_type": "gpt_oss", "initial_context_length": 8192})",
             {"/initial_context_length is 8192, but original_max_position_embeddings is 4096"}),
      config(R"({"model_type": "gpt_oss", "rope_scaling": null})",
             {"/rope_scaling is null", "Transformers 4", "YaRN", "add rope_parameters"}),
      config(R"({"model_type": "gpt_oss", "sliding_window": null})",
             {"/layer_types", "no sliding_window is in use"}),
      config(R"({"model_type": "mixtral", "quantization_config": {"quant_method": "mxfp4"}})",
             {"/quantization_config has quant_method \"mxfp4\"", "mxfp4 for gpt_oss"}),
      config(
          R"({"model_type": "deepseek_v3", "quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}})",
          {"/quantization_config has fmt \"e5m2\"; only \"e4m3\" is supported",
           "is fp8 and has no weight_block_size; only [128, 128] is supported"}),
      config(R"({"model_type": "llama", "quantization_config": {"quant_method": "fp8", )"
             R"("weight_block_size": [64, 64], "activation_scheme": "static"}})",
             {"has weight_block_size [64,64]; only [128, 128] is supported",
              "has activation_scheme \"static\"; only \"dynamic\" is supported"}),
      config(R"({"model_type": "qwen3_moe", "partial_rotary_factor": 0.5})",
             {"/partial_rotary_factor is not 1", "for this model type"}),
  };
}

std::vector<Case> links() {
  return {
      folder("a link to itself in place of config.json", HWS_IO, {"config.json", "symbolic links"},
             [](Site& site) {
               fs::remove(site.path(kConfig));
               fs::create_symlink("config.json", site.path(kConfig));
             }),
      folder("a link to nothing in place of the weights", HWS_CHECKPOINT_CORRUPT,
             {"model.safetensors is a link to a file that does not exist", "download the model again"},
             [](Site& site) {
               fs::remove(site.path(kWeights));
               fs::create_symlink("../blobs/gone", site.path(kWeights));
             }),
      folder("a FIFO in place of config.json", HWS_NOT_FOUND, {"is not a Hugging Face folder"},
             [](Site& site) {
               fs::remove(site.path(kConfig));
               ::mkfifo(site.path(kConfig).c_str(), 0600);
             }),
      folder("a link to a device in place of the weights", HWS_CHECKPOINT_CORRUPT,
             {"model.safetensors is a link to something that is not a regular file"},
             [](Site& site) {
               fs::remove(site.path(kWeights));
               fs::create_symlink("/dev/zero", site.path(kWeights));
             }),
  };
}

std::vector<Case> files() {
  return {
      {"a folder that is not there",
       HWS_NOT_FOUND,
       {".../none is not a Hugging Face folder", "config.json"},
       [](Site& site) {
         return hws_checkpoint_import(site.path("none").c_str(), site.path("out").c_str(), nullptr);
       }},
      folder("a folder without weights", HWS_NOT_FOUND,
             {".../model is not a Hugging Face folder", "model.safetensors"},
             [](Site& site) { fs::remove(site.path(kWeights)); }),
      folder("a FIFO among the tokenizer's files", HWS_CHECKPOINT_CORRUPT,
             {"tokenizer.json is not a regular file"},
             [](Site& site) { ::mkfifo(site.path("model/tokenizer.json").c_str(), 0600); }),
      folder("a tokenizer of 200 MB", HWS_OUT_OF_RANGE,
             {"tokenizer.json has 200000000 bytes", "Move it away"},
             [](Site& site) {
               site.write("model/tokenizer.json", "{}");
               fs::resize_file(site.path("model/tokenizer.json"), 200000000);
             }),
      index("an index that is no object", HWS_CHECKPOINT_CORRUPT, {"index.json", "not a JSON object"}, "[]"),
      index("an index without a map", HWS_CHECKPOINT_CORRUPT,
            {"weight_map is missing, empty or not an object"}, "{}"),
      index("an index that names a file elsewhere", HWS_CHECKPOINT_CORRUPT,
            {"'../secret.safetensors'", "is not a file name in the same folder"},
            R"({"weight_map": {"wte.weight": "../secret.safetensors"}})"),
      index("an index that names a missing file", HWS_NOT_FOUND,
            {"b.safetensors is missing", "index.json names it"},
            R"({"weight_map": {"wte.weight": "b.safetensors"}})"),
      index("an index that names a tensor the file has not", HWS_CHECKPOINT_CORRUPT,
            {"part.safetensors has no tensor 'none'"}, R"({"weight_map": {"none": "part.safetensors"}})"),
      folder(
          "keys to ignore that are not an array", HWS_INVALID_ARGUMENT, {"`ignore_keys`", "array"},
          [](Site&) {}, "{}"),
      folder(
          "keys to ignore that are not JSON", HWS_INVALID_ARGUMENT, {"`ignore_keys`", "array"}, [](Site&) {},
          "a,b"),
      folder("an import over something", HWS_ALREADY_EXISTS, {".../out", "choose another name"},
             [](Site& site) { fs::create_directory(site.path("out")); }),
  };
}

std::vector<Case> tensors() {
  return {
      weights("a tensor of another name", {"do not fit", "missing (1)", "unknown (1)", "'mine'"},
              [](Json& h) {
                h["mine"] = h["transformer.ln_f.weight"];
                h.erase("transformer.ln_f.weight");
              }),
      weights("a tensor of another shape",
              {"of another shape (1)", "transformer.wte.weight is [16, 61], not [61, 16]"},
              [](Json& h) {
                h["transformer.wte.weight"]["shape"] = {16, 61};
              }),
      weights("a tensor of integers",
              {"of a dtype other than F32, BF16 or F16 (1)", "transformer.wte.weight is I32"},
              [](Json& h) { h["transformer.wte.weight"]["dtype"] = "I32"; }),
  };
}

}  // namespace hugging_face_cases

Area hugging_face_area() {
  using namespace hugging_face_cases;
  Area area = {"Hugging Face folders",
               "A valid GPT-2 folder (one block of width 16, 61 tokens), changed and then imported. "
               "`config.json` is read to its "
               "end, all problems come at once.",
               configs()};
  for (const auto& more : {scores(), configs_of_experts(), files(), links(), tensors()})
    area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
