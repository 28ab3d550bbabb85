// Names of each family's tensors, in the order of Transformers' modules, and our parameters in them.
#include <fmt/format.h>

#include <set>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/family.h"
#include "engine/checkpoint/hf/hf_config.h"
#include "engine/checkpoint/hf/hf_model.h"

namespace hawser::checkpoint::hf {
namespace {

class Binder {
 public:
  Binder(const nn::ParameterTable& table, Absent absent) : table_(table), absent_(absent) {}

  /// Adds one of their tensors made from our parameters, if the model has them.
  void add(std::string hf_name, std::vector<std::string> parameters, bool transposed = false) {
    std::vector<int64_t> shape;
    for (const std::string& name : parameters) {
      const nn::Parameter* parameter = table_.find(name);
      if (parameter == nullptr) return;  // a bias, norm or head that this model does not have
      if (shape.empty()) {
        shape = parameter->shape;
      } else {
        shape[0] += parameter->shape[0];
      }
    }
    used_.insert(parameters.begin(), parameters.end());
    if (transposed) std::swap(shape[0], shape[1]);
    bindings_.push_back({std::move(hf_name), std::move(shape), std::move(parameters), transposed});
  }

  /// `.weight` and `.bias` of a module.
  void module(const std::string& hf_name, const std::string& ours) {
    add(hf_name + ".weight", {ours + ".weight"});
    add(hf_name + ".bias", {ours + ".bias"});
  }

  /// GPT-2's LayerNorm and Conv1D always have a bias. Conv1D stores weights as [in, out], with several of
  /// ours side by side.
  void gpt2_module(const std::string& hf_name, const std::vector<std::string>& ours, bool transposed) {
    std::vector<std::string> weights, biases;
    for (const std::string& name : ours) {
      weights.push_back(name + ".weight");
      biases.push_back(name + ".bias");
    }
    add(hf_name + ".weight", weights, transposed);
    if (absent_ == Absent::kZeros && table_.find(biases.front()) == nullptr) {
      bindings_.push_back({hf_name + ".bias", {bindings_.back().hf_shape.back()}, {}, false});
    } else {
      add(hf_name + ".bias", biases);
    }
  }

  std::vector<Binding> finish(std::string_view family, const nn::ModelConfig& model) {
    for (const nn::Parameter& parameter : table_.all())
      if (used_.count(parameter.name) == 0)
        fail(Code::kFailedPrecondition, "a {} model has no place for {} ({})", family, parameter.name,
             obstacle(family, model));
    return std::move(bindings_);
  }

 private:
  const nn::ParameterTable& table_;
  const Absent absent_;
  std::vector<Binding> bindings_;
  std::set<std::string> used_;
};

void bind_gpt2(const nn::ModelConfig& model, Binder* binder) {
  binder->add("transformer.wte.weight", {"embedding.tokens.weight"});
  binder->add("transformer.wpe.weight", {"embedding.positions.weight"});
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string hf = fmt::format("transformer.h.{}.", i), ours = fmt::format("blocks.{}.", i);
    binder->gpt2_module(hf + "ln_1", {ours + "attention_norm"}, false);
    binder->gpt2_module(hf + "attn.c_attn",
                        {ours + "attention.q", ours + "attention.k", ours + "attention.v"}, true);
    binder->gpt2_module(hf + "attn.c_proj", {ours + "attention.o"}, true);
    binder->gpt2_module(hf + "ln_2", {ours + "mlp_norm"}, false);
    binder->gpt2_module(hf + "mlp.c_fc", {ours + "mlp.up"}, true);
    binder->gpt2_module(hf + "mlp.c_proj", {ours + "mlp.down"}, true);
  }
  binder->gpt2_module("transformer.ln_f", {"final_norm"}, false);
}

void bind_gated(bool gemma, const nn::ModelConfig& model, Binder* binder) {
  binder->add("model.embed_tokens.weight", {"embedding.tokens.weight"});
  for (int64_t i = 0; i < model.layers; ++i) {
    const std::string hf = fmt::format("model.layers.{}.", i), ours = fmt::format("blocks.{}.", i);
    for (const char* letter : {"q", "k", "v", "o"})
      binder->module(fmt::format("{}self_attn.{}_proj", hf, letter), ours + "attention." + letter);
    binder->module(hf + "self_attn.q_norm", ours + "attention.q_norm");
    binder->module(hf + "self_attn.k_norm", ours + "attention.k_norm");
    for (const char* part : {"gate", "up", "down"})
      binder->module(fmt::format("{}mlp.{}_proj", hf, part), ours + "mlp." + part);
    binder->module(hf + "input_layernorm", ours + "attention_norm");
    if (gemma) {
      binder->module(hf + "post_attention_layernorm", ours + "attention_post_norm");
      binder->module(hf + "pre_feedforward_layernorm", ours + "mlp_norm");
      binder->module(hf + "post_feedforward_layernorm", ours + "mlp_post_norm");
    } else {
      binder->module(hf + "post_attention_layernorm", ours + "mlp_norm");
    }
  }
  binder->module("model.norm", "final_norm");
}

}  // namespace

std::vector<Binding> bindings(std::string_view family, const nn::ModelConfig& model,
                              const nn::ParameterTable& table, Absent absent) {
  if (family_defaults(family) == nullptr)
    fail(Code::kInvalidArgument, "'{}' is not a Hugging Face model type that Hawser supports", family);
  Binder binder(table, absent);
  if (family == "gpt2") {
    bind_gpt2(model, &binder);
  } else {
    bind_gated(is_gemma(family), model, &binder);
  }
  binder.add("lm_head.weight", {"head.weight"});
  return binder.finish(family, model);
}

}  // namespace hawser::checkpoint::hf
