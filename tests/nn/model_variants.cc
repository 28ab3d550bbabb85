#include "tests/nn/model_variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "engine/base/json.h"
#include "engine/config/config_tree.h"
#include "engine/config/model_fields.h"
#include "engine/nn/adapter_factors.h"
#include "tests/harness/kernel_levels.h"
#include "tests/nn/model_memory.h"

namespace hawser::testing {
namespace {

constexpr int32_t kPaddingToken = 3;  // padding token of the variants that have one; it is in every batch

/// Returns a LayerNorm model with learned positions and 2 layers, with `more` appended.
std::string gpt(const std::string& more) {
  return R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4, "position": "learned")" +
         more + "}";
}

constexpr const char* kNoPositions =
    R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4, "position": "none"})";
constexpr const char* kTiedRotary = R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4,
    "mlp_width": 24, "norm": "rms_norm", "mlp": "swiglu", "position": "rotary", "tied_head": true})";

/// Returns an RMSNorm model with rotary positions, grouped queries and 2 layers, with `more` appended.
std::string llama(const std::string& more) {
  return R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4, "mlp_width": 24,
             "norm": "rms_norm", "mlp": "swiglu", "position": "rotary", "tied_head": false)" +
         more + "}";
}

constexpr const char* kGemma = R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4,
    "kv_heads": 2, "head_dim": 8, "mlp_width": 20, "norm": "rms_norm", "norm_eps": 1e-6, "norm_weight_offset": 1,
    "mlp": "geglu", "position": "rotary", "post_norm": true, "embedding_scale": 4, "attention_scale": 0.3,
    "attention_softcap": 2, "logit_softcap": 1.5, "window": 4, "window_layers": [0], "tied_head": true})";

/// Layers with a window rotate by another base, and have no scaling.
constexpr const char* kGemma3 = R"({"vocab_size": 23, "context": 16, "layers": 3, "width": 16, "heads": 4,
    "kv_heads": 1, "head_dim": 8, "mlp_width": 20, "norm": "rms_norm", "norm_eps": 1e-6, "norm_weight_offset": 1,
    "mlp": "geglu", "position": "rotary", "post_norm": true, "qk_norm": true, "embedding_scale": 4, "attention_scale": 0.3,
    "rope": {"theta": 50, "scaling": "linear", "factor": 4, "window_theta": 7}, "window": 5, "window_layers": [0, 2],
    "tied_head": true})";

constexpr const char* kExactGeGlu = R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4,
    "mlp_width": 20, "mlp": "geglu_exact", "norm": "rms_norm", "position": "rotary",
    "bias": {"gate": true, "up": true}})";

constexpr const char* kClampedSwiGlu =
    R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4, "mlp_width": 20, "norm": "rms_norm",
    "mlp": "swiglu_clamped", "position": "rotary", "bias": {"gate": true, "up": true, "down": true}})";

constexpr const char* kOdd = R"({"vocab_size": 37, "context": 13, "layers": 1, "width": 15, "heads": 3,
    "kv_heads": 1, "head_dim": 7, "mlp_width": 11, "mlp": "gelu", "position": "learned"})";

constexpr const char* kOddRotary = R"({"vocab_size": 19, "context": 40, "layers": 3, "width": 18, "heads": 2,
    "kv_heads": 2, "head_dim": 6, "mlp_width": 13, "mlp": "geglu", "norm": "rms_norm", "position": "rotary",
    "bias": {"q": true, "k": true, "v": true}})";

/// Returns a model with experts, with `more` appended to its section of experts.
std::string mixture(const std::string& more, const std::string& mlp = "swiglu") {
  return R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4, "mlp_width": 24,
             "norm": "rms_norm", "position": "rotary", "tied_head": false, "mlp": ")" +
         mlp + R"(", "moe": {"width": 11, )" +
         (more.find("\"experts\"") == more.npos ? R"("experts": 6)" : R"("normalize": true)") + more + "}}";
}
constexpr const char* kBothLosses = R"({"aux_loss": 0.7, "z_loss": 0.3})";

constexpr const char* kAllBiases =
    R"(, "bias": {"q": true, "k": true, "v": true, "o": true, "gate": true, "up": true, "down": true})";

/// Returns a model section in which every number and switch differs from its default, including keys that
/// will be added later, so that the reference model must implement each key.
std::string off_defaults() {
  OrderedJson section{{"vocab_size", 23}, {"context", 16}, {"layers", 2},
                      {"width", 16},      {"heads", 4},    {"norm", "rms_norm"}};
  nn::ModelConfig usual = config::default_model();
  nn::each_model_key(usual, [&](const std::string& key, const auto& value, bool) {
    using Member = std::remove_cvref_t<decltype(value)>;
    if (key.find('/') != std::string::npos) return;
    if (key == "sinks") return;  // not supported with soft caps; models of its own have it
    if constexpr (std::is_same_v<Member, bool>) section[key] = !value;
    if constexpr (std::is_same_v<Member, double>) section[key] = value == 0 ? 0.75 : 1.5 * value;
  });
  return section.dump();
}

/// Returns the model with all biases of an MLP, and of the router.
std::string with_biases(const std::string& model) {
  OrderedJson json = OrderedJson::parse(model);
  const bool gated = json["mlp"] != "gelu_tanh";
  json["bias"] = {{"gate", gated}, {"up", true}, {"down", true}, {"router", true}};
  return json.dump();
}

std::vector<ModelVariant> mixtures() {
  return {
      {"experts", mixture("")},
      {"experts_both_losses", mixture(""), 2, 1, 9, false, kBothLosses},
      {"experts_not_normalised", mixture(R"(, "normalize": false, "scale": 1.7)"), 1, 2, 9, false,
       kBothLosses},
      {"experts_biases", with_biases(mixture(R"(, "top_k": 3)")), 1, 2, 8, false, kBothLosses},
      {"experts_biases_clamped_sigmoid",
       with_biases(mixture(R"(, "score": "sigmoid", "scale": 2.5, "layers": [1])", "swiglu_clamped")), 1, 2,
       9, true},
      {"experts_biases_gelu", with_biases(mixture("", "gelu_tanh"))},
      {"experts_one_choice", mixture(R"(, "top_k": 1, "normalize": false)"), 1, 1, 9, false, kBothLosses},
      {"experts_all_chosen", mixture(R"(, "top_k": 6)"), 2, 1, 9, false, kBothLosses},
      {"experts_gelu", mixture("", "gelu")},
      {"experts_geglu", mixture("", "geglu")},
      {"experts_swiglu_clamped", mixture("", "swiglu_clamped")},
      {"experts_sigmoid", mixture(R"(, "score": "sigmoid", "scale": 2.5)"), 2, 1, 9, false, kBothLosses},
      {"experts_groups", mixture(R"(, "score": "sigmoid", "groups": 3, "top_groups": 2, "top_k": 3)"), 2, 1,
       9, false, kBothLosses},
      {"experts_shared", mixture(R"(, "shared_width": 13)"), 2, 1, 9, true},
      {"experts_shared_gate", mixture(R"(, "shared_width": 13, "shared_gate": true, "layers": [1])"), 2, 2, 9,
       false, kBothLosses},
      {"more_experts_than_rows", mixture(R"(, "experts": 40)"), 1, 1, 8, false, kBothLosses},
  };
}

/// Returns a model with latent attention, heads of 7 + 4 features and values of 6, with `more` appended to
/// its section.
std::string latent(const std::string& more, const std::string& of_model = "") {
  return R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4, "head_dim": 11, "mlp_width": 24,
             "norm": "rms_norm", "mlp": "swiglu", "position": "rotary", "tied_head": false)" +
         of_model + R"(, "latent": {"kv_rank": 9, "rope_dim": 4)" +
         (more.find("\"value_dim\"") == more.npos ? R"(, "value_dim": 6)" : "") + more + "}}";
}

std::vector<ModelVariant> latent_models() {
  const std::string queries = R"(, "q_rank": 10)";
  return {
      {"latent", latent(queries)},
      {"latent_direct_queries", latent(""), 2, 2},
      {"latent_halves", latent(queries + R"(, "interleaved": false, "norm_eps": 0.2)"), 1, 2},
      {"latent_wide_values_documents", latent(queries + R"(, "value_dim": 13)"), 1, 2, 16, true},
      {"latent_biases", latent(queries, R"(, "bias": {"q": true, "k": true, "o": true})")},
      {"latent_direct_biases", latent("", R"(, "bias": {"q": true, "k": true})")},
      {"latent_yarn",
       latent(queries, R"(, "rope": {"scaling": "yarn", "factor": 4, "original_context": 4, "mscale": 1,
                                         "mscale_all_dim": 0.7})")},
      {"latent_everything",
       latent(
           queries,
           R"(, "window": 5, "window_layers": [1], "post_norm": true, "norm_weight_offset": 1, "attention_softcap": 2,
                          "dropout": {"attention": 0.2, "residual": 0.1}, "rope": {"window_theta": 7})"),
       1, 2, 16, true},
  };
}

/// Returns models with adapters, and with various frozen and trained parameters besides.
std::vector<ModelVariant> adapters() {
  const std::string all = R"({"rank": 3, "alpha": 5})",
                    joint = R"({"rank": 3, "targets": ["*.attention.qkv"]})";
  const std::string dropped = R"({"rank": 2, "alpha": 3, "dropout": 0.3, "train": ["final_norm.*"]})";
  const auto with = [](std::string name, std::string model, std::string adapter, ModelVariant other = {}) {
    other.name = "adapter_" + std::move(name);
    other.model = std::move(model), other.adapter = std::move(adapter);
    return other;
  };
  const ModelVariant accumulated{"", "", 1, 3}, documents{"", "", 1, 2, 16, true};
  return {
      with("llama", llama(R"(, "kv_heads": 2)"), all),
      with("gpt2", gpt(R"(, "mlp": "gelu_tanh")"), all, accumulated),
      with("mixed", kGemma,
           R"({"rank": 4, "targets": ["attention.q", "attention.v", "blocks.1.mlp.down"], "rslora": true,
               "ranks": [{"of": "mlp.*", "rank": 2}, {"of": "*.down", "rank": 9}], "alphas": [{"of": "*.v", "alpha": 7}],
               "train": ["embedding.tokens.*", "blocks.0.mlp.down.*"]})",
           documents),
      with("dora_llama", llama(R"(, "kv_heads": 2)"),
           R"({"rank": 3, "alpha": 5, "dora": true, "dropout": 0.3})"),
      with("dora_gpt2", gpt(R"(, "mlp": "gelu_tanh")"), R"({"rank": 3, "dora": true})", accumulated),
      with("dora_mixed", gpt(R"(, "mlp": "gelu_tanh")"),
           R"({"rank": 3, "dora": true, "targets": ["attention.q", "*.up"], "train": ["blocks.1.*"]})",
           documents),
      with("qk_norm", llama(R"(, "kv_heads": 2, "head_dim": 6, "qk_norm": true)"), all),
      with("sinks_frozen", llama(R"(, "kv_heads": 2, "sinks": true)"), all),
      with("sinks_trained", llama(R"(, "sinks": true)"),
           R"({"rank": 2, "train": ["blocks.1.attention.sinks"]})", accumulated),
      with("joint_qk_norm_biases", llama(std::string(R"(, "qk_norm": true)") + kAllBiases), joint),
      with("odd_sizes", kOdd, R"({"rank": 1, "dropout": 0.5, "targets": ["*"]})", {"", "", 3, 1, 13}),
      with("dropout", llama(R"(, "kv_heads": 2, "dropout": {"residual": 0.2})"), dropped, documents),
      with("dropout_joint", gpt(""), dropped, accumulated),
      with("latent", latent(R"(, "q_rank": 10)"), all),
      with("latent_direct_queries_dropout", latent(""), dropped),
      with("shared_expert", mixture(R"(, "shared_width": 13, "shared_gate": true, "layers": [1])"), dropped),
  };
}

std::vector<ModelVariant> odd_models() {
  return {
      {"odd_sizes", kOdd, 3, 1, 13},
      {"odd_sizes_one_position", kOdd, 2, 1, 1},
      {"odd_sizes_rotary", kOddRotary, 1, 1, 35},
      {"one_row_of_one_head",
       R"({"vocab_size": 5, "context": 8, "layers": 1, "width": 4, "heads": 1, "head_dim": 2, "mlp_width": 1,
           "position": "rotary"})",
       1, 1, 8},
  };
}

/// Returns models of whose heads only a part rotates.
std::vector<ModelVariant> partial_rotations() {
  return {
      {"rope_part", llama(R"(, "head_dim": 10, "rope": {"dim": 4})")},
      {"rope_part_qk_norm_biases", llama(R"(, "kv_heads": 2, "head_dim": 7, "qk_norm": true,
           "rope": {"dim": 6}, "bias": {"q": true, "k": true, "v": true})"),
       2, 2, 16, true},
      {"rope_part_windows", llama(R"(, "head_dim": 8, "window": 5, "window_layers": [1],
           "rope": {"dim": 2, "window_theta": 7})")},
  };
}

/// Returns models with the parts of GPT-OSS.
std::vector<ModelVariant> models_with_sinks() {
  return {
      {"sinks", gpt(R"(, "sinks": true)"), 1, 2},
      {"sinks_grouped_queries_window_documents",
       llama(R"(, "kv_heads": 2, "window": 4, "window_layers": [1], "sinks": true)"), 2, 1, 16, true},
      {"sinks_dropout", llama(R"(, "kv_heads": 1, "sinks": true, "dropout": {"attention": 0.3})")},
      {"swiglu_clamped", kClampedSwiGlu},
  };
}

std::vector<ModelVariant> dense_models() {
  return {
      {"off_defaults", off_defaults()},
      {"gpt2_tanh", gpt(R"(, "mlp": "gelu_tanh")")},
      {"gpt2_exact", gpt(R"(, "mlp": "gelu")")},
      {"gpt2_separate_head", gpt(R"(, "tied_head": false)")},
      {"accumulated_tied", gpt(""), 1, 3},
      {"accumulated_separate", llama(""), 2, 2},
      {"no_biases", gpt(R"(, "bias": {"all": false})")},
      {"norm_without_bias", gpt(R"(, "bias": {"norm": false})")},
      {"bias_q_only", llama(R"(, "bias": {"q": true})")},
      {"bias_q_v", llama(R"(, "kv_heads": 2, "bias": {"q": true, "v": true})")},
      {"bias_k_o", llama(R"(, "bias": {"k": true, "o": true})")},
      {"bias_gate_only", llama(R"(, "bias": {"gate": true})")},
      {"bias_up_down", llama(R"(, "bias": {"up": true, "down": true})")},
      {"bias_everywhere", llama(kAllBiases)},
      {"bias_q_only_qk_norm", llama(R"(, "qk_norm": true, "bias": {"q": true})")},
      {"no_positions", kNoPositions},
      {"llama_tied", kTiedRotary},
      {"grouped_queries", llama(R"(, "kv_heads": 2)")},
      {"multi_query", llama(R"(, "kv_heads": 1)")},
      {"qk_norm", llama(R"(, "kv_heads": 2, "head_dim": 6, "qk_norm": true)")},
      {"qk_norm_layer_norm", gpt(R"(, "qk_norm": true)")},
      {"window_everywhere", llama(R"(, "window": 3)")},
      {"window_of_one", llama(R"(, "window": 1, "window_layers": [1])")},
      {"attention_softcap", llama(R"(, "attention_softcap": 0.5)")},
      {"logit_softcap", gpt(R"(, "logit_softcap": 0.7)")},
      {"attention_scale", llama(R"(, "attention_scale": 1.1)")},
      {"embedding_scale", gpt(R"(, "embedding_scale": 3)")},
      {"weight_offset", llama(R"(, "norm_weight_offset": 1)")},
      {"post_norm", llama(R"(, "post_norm": true)")},
      {"post_norm_layer_norm", gpt(R"(, "post_norm": true)")},
      {"gemma", kGemma},
      {"geglu_exact", kExactGeGlu},
      {"gemma3", kGemma3},
      {"gemma3_documents", kGemma3, 1, 2, 16, true},
      {"gemma_accumulated_documents", kGemma, 1, 2, 16, true},
      {"rope_linear", llama(R"(, "rope": {"scaling": "linear", "factor": 2})")},
      {"rope_llama3", llama(R"(, "rope": {"scaling": "llama3", "factor": 4, "original_context": 4})")},
      {"rope_yarn", llama(R"(, "rope": {"scaling": "yarn", "factor": 4, "original_context": 4})")},
      {"dropout_embedding", gpt(R"(, "dropout": {"embedding": 0.3})")},
      {"dropout_attention", llama(R"(, "kv_heads": 2, "dropout": {"attention": 0.3})")},
      {"dropout_residual", gpt(R"(, "dropout": {"residual": 0.3})")},
      {"dropout_post_norm", llama(R"(, "post_norm": true, "dropout": {"residual": 0.2})")},
      {"dropout_everywhere", gpt(R"(, "dropout": {"embedding": 0.1, "attention": 0.2, "residual": 0.3})"), 1,
       2},
      {"dropout_documents_window",
       llama(
           R"(, "kv_heads": 2, "window": 4, "dropout": {"embedding": 0.1, "attention": 0.2, "residual": 0.3})"),
       2, 1, 16, true},
      {"documents_learned", gpt(""), 2, 1, 16, true},
      {"documents_rotary", llama(""), 2, 1, 16, true},
      {"padding_token_tied", gpt(R"(, "padding_token": 3)")},
      {"padding_token_separate", llama(R"(, "padding_token": 3)"), 1, 2},
  };
}

}  // namespace

const std::vector<ModelVariant>& model_variants() {
  static const std::vector<ModelVariant> variants = [] {
    std::vector<ModelVariant> all = dense_models();
    for (const auto& more :
         {odd_models(), partial_rotations(), models_with_sinks(), latent_models(), mixtures(), adapters()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return variants;
}

std::vector<ModelVariant> score_variants() {
  return {
      {"score", gpt(R"(, "head": "score")")},
      {"score_accumulated_documents",
       R"({"vocab_size": 23, "context": 16, "layers": 2, "width": 16, "heads": 4,
          "mlp_width": 24, "norm": "rms_norm", "norm_weight_offset": 1, "mlp": "swiglu", "position": "rotary",
          "head": "score", "padding_token": 3})",
       2, 2, 16, true},
      {.name = "score_beside_an_adapter", .model = gpt(R"(, "head": "score")"), .adapter = R"({"rank": 3})"},
  };
}

std::vector<ModelVariant> ahead_variants() {
  return {
      {"ahead_tied_accumulated", gpt(R"(, "ahead": 2, "dropout": {"attention": 0.2, "residual": 0.3})"), 1,
       2},
      {"ahead_separate", llama(R"(, "ahead": 1, "padding_token": 3)"), 2, 2},
      {"ahead_three_documents", llama(R"(, "ahead": 3, "window": 4, "window_layers": [1])"), 2, 2, 16, true},
      {"ahead_tied_documents", gpt(R"(, "ahead": 2, "post_norm": true, "embedding_scale": 2)"), 2, 1, 16,
       true},
  };
}

std::vector<ModelVariant> whole_variants() {
  std::vector<ModelVariant> variants = model_variants();
  std::erase_if(variants, [](const ModelVariant& variant) { return !variant.adapter.empty(); });
  return variants;
}

std::string variant_config(const ModelVariant& v, const std::string& max_isa, int32_t threads, bool bf16) {
  return fmt::format(
      R"({{"seed": 11, "model": {}, "precision": "{}", "cpu": {{"threads": {}, "max_isa": "{}"}},
          "batch": {{"micro_batch": {}, "grad_accum_steps": {}, "sequence": {}}}, "train": {{"steps": 4}}{}{}}})",
      v.model, bf16 ? "bf16" : "fp32", threads, max_isa, v.micro_batch, v.grad_accum_steps, v.sequence,
      v.moe.empty() ? "" : R"(, "moe": )" + v.moe, v.adapter.empty() ? "" : R"(, "adapter": )" + v.adapter);
}

config::ResolvedConfig resolve_variant(const ModelVariant& variant) {
  return config::resolve(config::ConfigTree::from_json(variant_config(variant, "generic")));
}

ReferenceBatch variant_batch(const ModelVariant& v, int64_t vocab_size) {
  ReferenceBatch batch;
  batch.rows = v.micro_batch * v.grad_accum_steps;
  batch.seq = v.sequence;
  std::mt19937 random(5);
  for (int64_t i = 0; i < batch.rows * batch.seq; ++i) {
    const int64_t row = i / batch.seq, column = i % batch.seq;
    const auto token = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size));
    batch.tokens.push_back(column == 2 ? kPaddingToken : token);
    const bool outside = v.model.find("score") != v.model.npos && column == batch.seq - 1;
    const bool masked = outside || (row == 1 ? column % 2 == 1 : column % 5 == 3);
    batch.targets.push_back(masked ? -100
                                   : static_cast<int32_t>(random() % static_cast<uint32_t>(vocab_size)));
    if (!v.documents) continue;
    const bool starts = column == 0 || column == 1 + row || column == 7 || column == 8;
    batch.document_begin.push_back(static_cast<int32_t>(starts ? column : batch.document_begin.back()));
  }
  return batch;
}

int64_t multiplied_elements(const nn::Parameter& p, const nn::ModelConfig& model) {
  if (p.name.ends_with(".bias")) return p.name.ends_with(".moe.experts.down.bias") ? p.size : 0;
  if (p.shape.size() == 3) return p.size / model.moe.experts * model.moe.top_k;
  return p.shape.size() == 2 ? p.size : 0;
}

std::vector<float> variant_weights(const nn::ParameterTable& table, double norm_weight_offset,
                                   bool new_adapter, DType type) {
  const FlatLayout layout(table);
  std::vector<float> weights(static_cast<size_t>(layout.size()), 0.0f);
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<const nn::Parameter*> order;
  for (const nn::Parameter& p : table.all()) order.push_back(&p);
  std::stable_partition(order.begin(), order.end(), [](const nn::Parameter* p) { return !p->adapter; });
  for (const nn::Parameter* const parameter : order) {
    const nn::Parameter& p = *parameter;
    if (new_adapter && p.name.ends_with("adapter_b.weight")) continue;
    const bool matrix = p.shape.size() >= 2, bias = p.name.ends_with(".bias");
    // Embeddings are so wide that no norm divides by a small number, so fp32 can be accurate to 1e-6.
    const bool query_or_key = p.name.ends_with(".q.weight") || p.name.ends_with(".k.weight");
    const double spread = p.block == 0 ? 1.0 : query_or_key ? 0.3 : 0.15;
    const double centre = matrix || bias ? 0.0 : 1.0 - norm_weight_offset;
    for (int64_t i = 0; i < p.size; ++i)
      weights[static_cast<size_t>(layout.at(p) + i)] = static_cast<float>(centre + spread * normal(random));
  }
  for (const nn::Parameter& p : table.all()) {
    const nn::AdapterFactors factors = nn::adapter_factors(table, p);
    if (!new_adapter || factors.m == nullptr) continue;
    std::vector<float> read(static_cast<size_t>(p.size));
    for (size_t i = 0; i < read.size(); ++i) read[i] = weights[static_cast<size_t>(layout.at(p)) + i];
    if (type == DType::kBf16)
      for (float& w : read) w = from_bf16(to_bf16(w));
    nn::row_norms(weights.data() + layout.at(*factors.m), read.data(), p.shape[0], p.shape[1]);
  }
  return weights;
}

}  // namespace hawser::testing
