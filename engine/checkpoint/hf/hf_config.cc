// Config reader: converts config.json to ModelConfig, family by family. Each key that matters is honoured or
// refused by name. Keys without effect are listed in keys_without_effect.cc. Any other key is refused unless
// the caller allows it.
#include "engine/checkpoint/hf/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/checkpoint/hf/quantised.h"
#include "engine/config/model_fields.h"

namespace hawser::checkpoint::hf {
namespace {

using nn::MlpKind;
using nn::ModelConfig;
using nn::Norm;
using nn::Position;

constexpr int64_t kMaxLayers = 10000;  // limit of the config schema; bounds what is allocated per layer

/// GELU has several names in configs, in its exact form (here) and in its tanh form (below).
bool is_exact_gelu(const std::string& name) { return name == "gelu" || name == "gelu_python"; }

bool is_tanh_gelu(const std::string& name) {
  return name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_python_tanh" ||
         name == "gelu_accurate";
}

void refuse_true(ConfigFields* fields, const char* key, const char* why) {
  if (fields->flag(key, false)) fields->problem(key, fmt::format("is true; {}", why));
}

/// Refuses keys that any family may have and that would change the mathematics.
void read_common(ConfigFields* fields, std::string_view family) {
  refuse_true(fields, "is_encoder_decoder", "only decoders are supported");
  refuse_true(fields, "add_cross_attention", "cross attention is not supported");
  refuse_true(fields, "use_bidirectional_attention", "only causal attention is supported");
  refuse_true(fields, "use_mrope", "multimodal rotary positions are not supported");
  refuse_true(fields, "rope_interleaved", "interleaved rotation is not supported");
  if (!fields->flag("is_causal", true))
    fields->problem("is_causal", "is false; only causal attention is supported");
  read_quantisation(fields, family);
  for (const char* key : {"per_layer_config", "pruned_heads"}) {
    fields->accept(key);
    if (fields->has(key) && !fields->is_null(key) && fields->value_text(key) != "{}")
      fields->problem(key, fmt::format("is {}, which is not supported", fields->value_text(key)));
  }
}

/// Reads the padding token. A negative id counts from the end of the vocabulary, as in torch.nn.Embedding.
int64_t read_padding_token(ConfigFields* fields, const std::string& family, int64_t vocab_size) {
  fields->accept("pad_token_id");
  if (!fields->has("pad_token_id")) return is_gemma(family) ? 0 : -1;  // the classes' defaults
  if (fields->is_null("pad_token_id")) return -1;
  const int64_t id = fields->integer("pad_token_id", 0, -vocab_size, vocab_size - 1);
  return id < 0 ? vocab_size + id : id;
}

double read_dropout(ConfigFields* fields, const char* key, double fallback) {
  return fields->number(key, fallback, 0.0, std::nextafter(1.0, 0.0));
}

/// Reads a size of GPT-2, which also has a general name (attribute_map in Transformers).
int64_t read_size(ConfigFields* fields, const char* key, const char* other_key, int64_t fallback,
                  int64_t maximum = INT32_MAX) {
  if (fields->has(key) && fields->has(other_key) && !fields->same_value(key, *fields, other_key))
    fields->problem(other_key, fmt::format("is {}, but {} is {}; remove the wrong one",
                                           fields->value_text(other_key), key, fields->value_text(key)));
  const int64_t value = fields->integer(other_key, fallback, 1, maximum);
  return fields->integer(key, value, 1, maximum);
}

void read_gpt2(ConfigFields* fields, const FamilyDefaults& defaults, ModelConfig* model) {
  model->vocab_size = fields->integer("vocab_size", defaults.vocab_size);
  model->context = read_size(fields, "n_positions", "max_position_embeddings", defaults.context);
  model->width = read_size(fields, "n_embd", "hidden_size", defaults.width);
  model->layers = read_size(fields, "n_layer", "num_hidden_layers", defaults.layers, kMaxLayers);
  model->heads = model->kv_heads = read_size(fields, "n_head", "num_attention_heads", defaults.heads);
  if (model->width % model->heads != 0)
    fields->problem("n_head",
                    fmt::format("is {}, which does not divide n_embd {}", model->heads, model->width));
  model->head_dim = std::max<int64_t>(model->width / model->heads, 1);
  model->mlp_width = fields->integer("n_inner", 4 * model->width);
  model->norm = Norm::kLayerNorm;
  model->norm_eps = fields->number("layer_norm_epsilon", defaults.norm_eps, 1e-30, 1.0);
  const std::string activation = fields->text("activation_function", "gelu_new");
  model->mlp = is_tanh_gelu(activation) ? MlpKind::kGeluTanh : MlpKind::kGelu;
  if (!is_tanh_gelu(activation) && !is_exact_gelu(activation))
    fields->problem("activation_function",
                    fmt::format("is \"{}\"; supported are gelu and gelu_new", activation));
  model->position = Position::kLearned;
  refuse_true(fields, "scale_attn_by_inverse_layer_idx",
              "a scale that depends on the layer is not supported");
  const bool scaled = fields->flag("scale_attn_weights", true);
  model->attention_scale = scaled ? 1.0 / std::sqrt(static_cast<double>(model->head_dim)) : 1.0;
  model->tied_head = fields->flag("tie_word_embeddings", defaults.tied);
  model->dropout_embedding = read_dropout(fields, "embd_pdrop", 0.1);
  model->dropout_attention = read_dropout(fields, "attn_pdrop", 0.1);
  model->dropout_residual = read_dropout(fields, "resid_pdrop", 0.1);
  model->window.assign(static_cast<size_t>(model->layers), 0);
}

/// Reads which layers have a sliding window: layer_types if present, else `slides`.
void read_windows(ConfigFields* fields, int64_t window, std::vector<bool> slides, ModelConfig* model) {
  if (fields->has("layer_types") && !fields->is_null("layer_types")) {
    const std::vector<std::string> types = fields->texts("layer_types");
    if (static_cast<int64_t>(types.size()) != model->layers) {
      fields->problem("layer_types",
                      fmt::format("has {} entries for {} layers", types.size(), model->layers));
    } else {
      for (size_t i = 0; i < types.size(); ++i) {
        slides[i] = types[i] == "sliding_attention";
        if (types[i] != "sliding_attention" && types[i] != "full_attention" && types[i] != "attention")
          fields->problem(
              fmt::format("layer_types/{}", i),
              fmt::format("is \"{}\"; supported are full_attention and sliding_attention", types[i]));
      }
    }
  }
  const bool any = std::find(slides.begin(), slides.end(), true) != slides.end();
  if (any && window <= 0)
    fields->problem("layer_types", "has sliding layers, but no sliding_window is in use");
  model->window.clear();
  for (const bool slide : slides) model->window.push_back(slide ? std::max<int64_t>(window, 0) : 0);
}

/// Reads the period of Gemma 3's full-attention layers. Transformers 5 writes it under two names.
int64_t read_pattern(ConfigFields* fields) {
  const int64_t pattern = fields->integer("_sliding_window_pattern", 6);
  return fields->integer("sliding_window_pattern", pattern);
}

/// Reads the windows of GPT-OSS, which layers 0, 2, 4, ... have unless the file says otherwise.
void read_alternating_windows(ConfigFields* fields, ModelConfig* model) {
  const bool none = fields->is_null("sliding_window");
  fields->accept("sliding_window");
  const int64_t window = none ? 0 : fields->integer("sliding_window", 128);
  std::vector<bool> slides;
  for (int64_t i = 0; i < model->layers; ++i) slides.push_back(i % 2 == 0);
  read_windows(fields, window, slides, model);
}

void read_family_windows(ConfigFields* fields, const std::string& family, ModelConfig* model) {
  std::vector<bool> slides(static_cast<size_t>(model->layers), false);
  if (is_gpt_oss(family)) return read_alternating_windows(fields, model);
  if (dense_relative(family) == "llama") {
    read_windows(fields, 0, slides, model);
    return;
  }
  // An absent key means 4096, except for mixtral, where it means no window. null means no window, and so does
  // the 0 that Qwen's mixtures store without use_sliding_window.
  const bool none = fields->is_null("sliding_window") ||
                    (family == "mixtral" && !fields->has("sliding_window")) ||
                    (family.ends_with("_moe") && fields->value_text("sliding_window") == "0");
  int64_t window = none ? 0 : 4096;
  fields->accept("sliding_window");
  if (!none) window = fields->integer("sliding_window", window);
  if (dense_relative(family) == "mistral") {
    slides.assign(slides.size(), window > 0);
    const std::vector<bool> all = slides;
    read_windows(fields, window, slides, model);
    for (size_t i = 0; i < all.size() && i < model->window.size(); ++i)
      if ((model->window[i] > 0) != all[i]) {
        fields->problem("layer_types",
                        "differs from sliding_window, which in such a model applies to all layers or none");
        break;
      }
  } else if (is_gemma(family)) {
    const int64_t full_every = family == "gemma2" ? 2 : read_pattern(fields);
    for (size_t i = 0; i < slides.size(); ++i) slides[i] = (static_cast<int64_t>(i) + 1) % full_every != 0;
    read_windows(fields, window, slides, model);
  } else {  // qwen2, qwen3 and their relatives; dots1 has no switch
    const bool dots = family == "dots1";
    const bool use = fields->flag("use_sliding_window", dots);
    if (use && !dots && has_experts(family))
      fields->problem("use_sliding_window", "is true; sliding windows are not supported for this model type");
    const int64_t first = fields->integer("max_window_layers", dots ? 62 : 28, 0);
    if (use && window > 0)
      for (size_t i = static_cast<size_t>(std::min(first, model->layers)); i < slides.size(); ++i)
        slides[i] = true;
    read_windows(fields, use ? window : 0, slides, model);
  }
}

/// Reads the properties that only GPT-OSS has. Its MLP is supported only with the published constants.
void read_gpt_oss(ConfigFields* fields, ModelConfig* model) {
  nn::BiasConfig& bias = model->bias;
  model->sinks = bias.gate = bias.up = bias.down = bias.router = true;
  model->mlp = MlpKind::kSwiGluClamped;
  fields->accept("hidden_act");  // GPT-OSS does not read it
  fields->accept("initial_context_length");
  if (model->rope.scaling == nn::RopeScaling::kYarn)
    fields->require("initial_context_length", model->rope.original_context,
                    "original_max_position_embeddings");
  for (const auto& [key, only] : {std::pair{"swiglu_limit", 7.0}, {"swiglu_alpha", 1.702}})
    if (fields->number(key, only, 0.0) != only)
      fields->problem(key, fmt::format("is {}; only {} is supported", fields->value_text(key), only));
}

void read_activation(ConfigFields* fields, const char* key, const char* fallback, ModelConfig* model) {
  const std::string activation = fields->text(key, fallback);
  model->mlp = is_tanh_gelu(activation)    ? MlpKind::kGeGlu
               : is_exact_gelu(activation) ? MlpKind::kGeGluExact
                                           : MlpKind::kSwiGlu;
  if (model->mlp == MlpKind::kSwiGlu && activation != "silu" && activation != "swish")
    fields->problem(
        key,
        fmt::format("is \"{}\"; a gated MLP is supported with silu, gelu and gelu_pytorch_tanh", activation));
}

void read_sizes(ConfigFields* fields, const FamilyDefaults& defaults, ModelConfig* model) {
  model->vocab_size = fields->integer("vocab_size", defaults.vocab_size);
  model->context = fields->integer("max_position_embeddings", defaults.context);
  model->width = fields->integer("hidden_size", defaults.width);
  model->layers = fields->integer("num_hidden_layers", defaults.layers, 1, kMaxLayers);
  model->heads = fields->integer("num_attention_heads", defaults.heads);
  const bool as_heads = defaults.kv_heads == 0 || fields->is_null("num_key_value_heads");
  model->kv_heads = fields->integer("num_key_value_heads", as_heads ? model->heads : defaults.kv_heads);
  if (model->heads % model->kv_heads != 0)
    fields->problem("num_key_value_heads", fmt::format("is {}, which does not divide num_attention_heads {}",
                                                       model->kv_heads, model->heads));
  const bool derived = defaults.head_dim == 0;
  if (derived && (!fields->has("head_dim") || fields->is_null("head_dim")) &&
      model->width % model->heads != 0)
    fields->problem("num_attention_heads",
                    fmt::format("is {}, which does not divide hidden_size {}, and there is no head_dim",
                                model->heads, model->width));
  model->head_dim = fields->integer(
      "head_dim", derived ? std::max<int64_t>(model->width / model->heads, 1) : defaults.head_dim);
  if (model->head_dim % 2 != 0)
    fields->problem("head_dim", fmt::format("is {}; rotary positions need an even number", model->head_dim));
  model->mlp_width = fields->integer("intermediate_size", defaults.mlp_width);
}

/// Reads llama and its relatives.
void read_gated(ConfigFields* fields, const std::string& whole_family, const FamilyDefaults& defaults,
                ModelConfig* model) {
  const std::string family(dense_relative(whole_family));
  read_sizes(fields, defaults, model);
  model->norm = Norm::kRmsNorm;
  model->norm_eps = fields->number("rms_norm_eps", defaults.norm_eps, 1e-30, 1.0);
  model->position = Position::kRotary;
  read_rope(fields, whole_family, model);
  nn::RopeConfig& rope = model->rope;  // only in latent attention does one mscale alone have an effect
  if (!is_deepseek(whole_family) && (rope.mscale == 0 || rope.mscale_all_dim == 0))
    rope.mscale = rope.mscale_all_dim = 0;
  if (whole_family == "mixtral" && !fields->has("rope_theta") && !fields->has("rope_parameters"))
    model->rope.theta = 1e6;
  nn::BiasConfig& bias = model->bias;
  bias = {false, false, false, false, false, false, false, false};
  if (family == "qwen2") bias.q = bias.k = bias.v = whole_family == "qwen2" || fields->flag("qkv_bias", true);
  if (family == "llama" || family == "qwen3" || is_gemma(family))
    bias.q = bias.k = bias.v = bias.o = fields->flag("attention_bias", is_gpt_oss(whole_family));
  if (is_glm(whole_family)) bias.o = false;
  if (whole_family == "llama") bias.gate = bias.up = bias.down = fields->flag("mlp_bias", false);
  for (const char* key :
       {"attention_bias", "mlp_bias"})  // Transformers writes false even for families that ignore the key
    if (fields->value_text(key) == "false") fields->accept(key);
  model->qk_norm = family == "qwen3" || family == "gemma3_text" ||
                   (is_glm(whole_family) && fields->flag("use_qk_norm", false));
  model->attention_scale = 1.0 / std::sqrt(static_cast<double>(model->head_dim));
  if (is_deepseek(whole_family)) read_latent(fields, model);
  if (is_gemma(family)) {
    read_activation(fields, "hidden_activation", "gelu_pytorch_tanh", model);
    fields->accept("hidden_act");  // Gemma reads hidden_activation instead
    model->norm_weight_offset = 1.0;
    model->post_norm = true;
    model->attention_scale = 1.0 / std::sqrt(fields->number("query_pre_attn_scalar", 256.0, 1e-30));
    const auto cap = [&](const char* key, double absent) {
      return fields->number(key, fields->is_null(key) ? 0.0 : absent, 0.0);
    };
    model->attention_softcap = cap("attn_logit_softcapping", family == "gemma2" ? 50.0 : 0.0);
    model->logit_softcap = cap("final_logit_softcapping", family == "gemma2" ? 30.0 : 0.0);
    model->embedding_scale = std::sqrt(static_cast<double>(model->width));
  } else if (is_gpt_oss(whole_family)) {
    read_gpt_oss(fields, model);
  } else {
    read_activation(fields, "hidden_act", "silu", model);
  }
  model->tied_head = fields->flag("tie_word_embeddings", defaults.tied);
  model->dropout_attention = read_dropout(fields, "attention_dropout", 0.0);
  read_family_windows(fields, whole_family, model);
  const auto slides = [](int64_t window) { return window > 0; };
  if (std::none_of(model->window.begin(), model->window.end(), slides)) model->rope.window_theta = 0;
  if (whole_family != family) read_experts(fields, whole_family, model);
}

[[noreturn]] void fail_problems(const std::vector<ConfigProblem>& problems) {
  std::string message =
      fmt::format("config.json: {} problem{}", problems.size(), problems.size() == 1 ? "" : "s");
  Json list = Json::array();
  for (const ConfigProblem& problem : problems) {
    message += fmt::format("\n  {} {}", problem.pointer, problem.message);
    list.push_back({{"pointer", problem.pointer}, {"message", problem.message}, {"fix", ""}});
  }
  throw Error(Code::kConfigInvalid, message, Json{{"file", "config.json"}, {"problems", list}}.dump());
}

}  // namespace

const Family* find_family(std::string_view name) {
  for (const Family& family : kFamilies)
    if (name == family.name) return &family;
  return nullptr;
}

const Family& family_row(std::string_view name) {
  const Family* const family = find_family(name);
  if (family == nullptr) fail(Code::kInternal, "no Hugging Face family \"{}\"", name);
  return *family;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.push_back(family.name);
  return names;
}

HfConfig read_config(std::string_view config_json_text, const std::vector<std::string>& ignore_keys,
                     Strictness strictness) {
  ConfigFields fields(config_json_text);
  HfConfig result{.family = "", .model = config::default_model()};
  result.family = fields.text("model_type", "");
  const Family* const family = find_family(result.family);
  if (family == nullptr)
    throw Error(Code::kConfigInvalid,
                fmt::format("config.json: /model_type is {}; supported are {}",
                            fields.value_text("model_type"), fmt::join(family_names(), ", ")),
                Json{{"file", "config.json"}, {"pointer", "/model_type"}}.dump());
  read_common(&fields, result.family);
  if (result.family == "gpt2") {
    fields.accept("pad_token_id");  // GPT-2's embedding has no padding token
    read_gpt2(&fields, family->defaults, &result.model);
  } else {
    read_gated(&fields, result.family, family->defaults, &result.model);
    result.model.padding_token = read_padding_token(&fields, result.family, result.model.vocab_size);
  }
  read_head(&fields, &result.model);
  const auto is_ignored = [&](const std::string& key) {
    return std::find(ignore_keys.begin(), ignore_keys.end(), key) != ignore_keys.end();
  };
  if (result.model.has_score() && !fields.is_null("pad_token_id") && !is_ignored("pad_token_id") &&
      fields.includes("eos_token_id", "pad_token_id"))
    fields.problem("pad_token_id",
                   fmt::format("is {}, which is also in eos_token_id: Transformers reads the score before "
                               "the tokens that end a row, Hawser at the last token. Set pad_token_id to "
                               "null, or list it in init.ignore_keys, to read it at the last token",
                               fields.value_text("pad_token_id")));
  const std::string further =  // Transformers 5 uses the name num_mtp_layers
      fields.has("num_mtp_layers") ? "num_mtp_layers" : "num_nextn_predict_layers";
  if (predicts_further(result.family)) result.further_layers = fields.integer(further, 0, 0, nn::kMostAhead);
  if (!is_ignored(further)) result.model.ahead = result.further_layers;
  for (const std::string& key : fields.unknown())
    if (!has_no_effect(key) && !is_ignored(key))
      fields.problem(
          key,
          fmt::format("({}) is unknown for {} models and may affect the result; if it does not, list it in "
                      "init.ignore_keys",
                      fields.value_text(key), result.family));
  if (strictness == Strictness::kStrict && !fields.problems().empty()) fail_problems(fields.problems());
  return result;
}

std::string model_json(std::string_view config_json_text, const std::vector<std::string>& ignore_keys) {
  const ModelConfig model = read_config(config_json_text, ignore_keys, Strictness::kStrict).model;
  return OrderedJson{{"model", config::model_json(model)}}.dump(2);
}

}  // namespace hawser::checkpoint::hf
