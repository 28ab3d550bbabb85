// Tensor names: lists each family's tensors in the order of Transformers' modules, and our parameters in
// them.
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

  /// Adds one Hugging Face tensor made from our parameters, if the model has them. If `transposed`, the
  /// tensor is the transpose of our matrices stacked along their rows.
  void add(std::string hf_name, const std::vector<std::string>& parameters, bool transposed = false) {
    Binding binding{std::move(hf_name), {}};
    for (const std::string& name : parameters) {
      const nn::Parameter* parameter = table_.find(name);
      if (parameter == nullptr) return;  // a bias, norm or head that this model does not have
      if (binding.hf_shape.empty()) {
        binding.hf_shape = parameter->shape;
      } else {
        binding.hf_shape[0] += parameter->shape[0];
      }
      binding.append(name, 0, parameter->size);
    }
    used_.insert(parameters.begin(), parameters.end());
    if (transposed) {
      const int64_t outs = binding.hf_shape[0], ins = binding.hf_shape[1];
      for (BindingPart& part : binding.parts)
        part.at /= ins, part.columns = ins, part.row_step = 1, part.column_step = outs;
      std::swap(binding.hf_shape[0], binding.hf_shape[1]);
    }
    bindings_.push_back(std::move(binding));
  }

  /// Adds one tensor for each expert's matrix; its name is hf_prefix, the expert's number, hf_suffix.
  void each_expert(const std::string& hf_prefix, const std::string& hf_suffix, const std::string& ours) {
    const nn::Parameter* p = table_.find(ours);
    if (p == nullptr) return;
    used_.insert(ours);
    const int64_t size = p->size / p->shape[0];
    for (int64_t e = 0; e < p->shape[0]; ++e) {
      Binding binding{fmt::format("{}{}{}", hf_prefix, e, hf_suffix), {p->shape[1], p->shape[2]}};
      binding.append(ours, e * size, size);
      bindings_.push_back(std::move(binding));
    }
  }

  /// Adds one tensor that holds all experts. Within an expert, the matrices of `ours` follow each other.
  void fused_experts(const std::string& hf_name, const std::vector<std::string>& ours) {
    const nn::Parameter* first = table_.find(ours.front());
    if (first == nullptr) return;
    used_.insert(ours.begin(), ours.end());
    const int64_t experts = first->shape[0], size = first->size / experts;
    Binding binding{hf_name, {experts, std::ssize(ours) * first->shape[1], first->shape[2]}};
    for (int64_t e = 0; e < experts; ++e)
      for (const std::string& name : ours) binding.append(name, e * size, size);
    bindings_.push_back(std::move(binding));
  }

  /// Adds one tensor that holds the matrices, or the biases, of all experts. Within an expert, the outputs of
  /// `ours` alternate. Matrices are stored as [experts, in, out] if `transposed`, otherwise as [experts, out,
  /// in].
  void alternating_experts(const std::string& hf_name, const std::vector<std::string>& ours,
                           bool transposed) {
    const nn::Parameter* first = table_.find(ours.front());
    if (first == nullptr) return;
    used_.insert(ours.begin(), ours.end());
    const bool matrices = first->shape.size() == 3;
    const int64_t experts = first->shape[0], outs = first->shape[1], ins = matrices ? first->shape[2] : 1;
    const int64_t each = outs * ins, kinds = std::ssize(ours);
    Binding binding{hf_name, {experts, kinds * outs}};
    if (matrices) binding.hf_shape.insert(binding.hf_shape.begin() + (transposed ? 1 : 2), ins);
    for (int64_t e = 0; e < experts; ++e)
      for (int64_t k = 0; k < kinds; ++k) {
        const std::string& name = ours[static_cast<size_t>(k)];
        const int64_t begin = e * kinds * each;
        if (transposed)
          binding.parts.push_back({name, e * each, each, begin + k, ins, kinds, kinds * outs});
        else
          binding.parts.push_back({name, e * each, each, begin + k * ins, ins, kinds * ins, 1});
      }
    bindings_.push_back(std::move(binding));
  }

  /// Adds `.weight` and `.bias` of a module.
  void module(const std::string& hf_name, const std::string& ours) {
    add(hf_name + ".weight", {ours + ".weight"});
    add(hf_name + ".bias", {ours + ".bias"});
  }

  /// Adds a module of GPT-2, whose LayerNorm and Conv1D always have a bias. Conv1D stores weights as [in,
  /// out], with the matrices of `ours` side by side.
  void gpt2_module(const std::string& hf_name, const std::vector<std::string>& ours, bool transposed) {
    std::vector<std::string> weights, biases;
    for (const std::string& name : ours) {
      weights.push_back(name + ".weight");
      biases.push_back(name + ".bias");
    }
    add(hf_name + ".weight", weights, transposed);
    if (absent_ == Absent::kZeros && table_.find(biases.front()) == nullptr) {
      bindings_.push_back({hf_name + ".bias", {bindings_.back().hf_shape.back()}});
    } else {
      add(hf_name + ".bias", biases);
    }
  }

  std::vector<Binding> finish(std::string_view family, const nn::ModelConfig& model) {
    for (const nn::Parameter& parameter : table_.all())
      if (used_.count(parameter.name) == 0 && !parameter.adapter)
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

/// Names that a family gives to the router and experts of a layer, and to the matrices of one expert.
struct ExpertNames {
  const char *block, *gate, *up, *down, *shared;
};

ExpertNames expert_names(std::string_view family, const ExpertStyle& style) {
  if (family == "mixtral" && !style.plain_names) return {"block_sparse_moe.", "w1", "w3", "w2", ""};
  return {"mlp.", "gate_proj", "up_proj", "down_proj",
          routes_as_deepseek(family) ? "shared_experts." : "shared_expert."};
}

void bind_experts(const std::string& layer, const std::string& ours, const ExpertNames& names,
                  const ExpertStyle& style, Binder* binder) {
  const std::string block = layer + names.block, experts = block + "experts.", moe = ours + "moe.";
  binder->add(block + "gate.weight", {moe + "router.weight"});
  binder->add(block + "gate.e_score_correction_bias", {moe + "router.bias"});
  if (style.fused) {
    binder->fused_experts(experts + "gate_up_proj", {moe + "experts.gate.weight", moe + "experts.up.weight"});
    binder->fused_experts(experts + "down_proj", {moe + "experts.down.weight"});
  } else {
    for (const auto& [part, name] : {std::pair{"gate", names.gate}, {"up", names.up}, {"down", names.down}})
      binder->each_expert(experts, fmt::format(".{}.weight", name),
                          fmt::format("{}experts.{}.weight", moe, part));
  }
  for (const char* part : {"gate", "up", "down"})
    binder->add(fmt::format("{}{}{}_proj.weight", block, names.shared, part),
                {fmt::format("{}shared.{}.weight", moe, part)});
  binder->add(block + "shared_expert_gate.weight", {moe + "shared_gate.weight"});
}

/// Adds the router of gpt_oss, which is named mlp.router, and its experts. One tensor holds gate and up of
/// all experts, with outputs of gate and up alternating, and another holds down. The matrices are transposed
/// unless style.packed.
void bind_gpt_oss_experts(const std::string& layer, const std::string& ours, const ExpertStyle& style,
                          Binder* binder) {
  const std::string experts = layer + "mlp.experts.", moe = ours + "moe.";
  binder->add(layer + "mlp.router.weight", {moe + "router.weight"});
  binder->add(layer + "mlp.router.bias", {moe + "router.logit_bias"});
  const std::string gate = moe + "experts.gate", up = moe + "experts.up", down = moe + "experts.down";
  binder->alternating_experts(experts + "gate_up_proj", {gate + ".weight", up + ".weight"}, !style.packed);
  binder->alternating_experts(experts + "gate_up_proj_bias", {gate + ".bias", up + ".bias"}, false);
  binder->alternating_experts(experts + "down_proj", {down + ".weight"}, !style.packed);
  binder->alternating_experts(experts + "down_proj_bias", {down + ".bias"}, false);
}

void bind_latent_attention(const std::string& layer, const std::string& ours, Binder* binder) {
  const std::string hf = layer + "self_attn.", attention = ours + "attention.";
  for (const auto& [theirs, name] : {std::pair{"q_proj", "q"},
                                     {"q_a_proj", "q_a"},
                                     {"q_a_layernorm", "q_a_norm"},
                                     {"q_b_proj", "q_b"},
                                     {"kv_a_proj_with_mqa", "kv_a"},
                                     {"kv_a_layernorm", "kv_a_norm"},
                                     {"kv_b_proj", "kv_b"},
                                     {"o_proj", "o"}})
    binder->module(hf + theirs, attention + name);
}

void bind_attention(const std::string& layer, const std::string& ours, Binder* binder) {
  binder->add(layer + "self_attn.sinks", {ours + "attention.sinks"});
  for (const char* letter : {"q", "k", "v", "o"})
    binder->module(fmt::format("{}self_attn.{}_proj", layer, letter), ours + "attention." + letter);
  binder->module(layer + "self_attn.q_norm", ours + "attention.q_norm");
  binder->module(layer + "self_attn.k_norm", ours + "attention.k_norm");
}

void bind_gated_layer(std::string_view family, const nn::ModelConfig& model, int64_t layer,
                      const ExpertStyle& style, Binder* binder) {
  const std::string hf = fmt::format("model.layers.{}.", layer), ours = fmt::format("blocks.{}.", layer);
  model.is_latent() ? bind_latent_attention(hf, ours, binder) : bind_attention(hf, ours, binder);
  if (is_gpt_oss(family)) {
    bind_gpt_oss_experts(hf, ours, style, binder);
  } else if (model.is_sparse(layer)) {
    bind_experts(hf, ours, expert_names(family, style), style, binder);
  } else {
    for (const char* part : {"gate", "up", "down"})
      binder->module(fmt::format("{}mlp.{}_proj", hf, part), ours + "mlp." + part);
  }
  binder->module(hf + "input_layernorm", ours + "attention_norm");
  if (is_gemma(family)) {
    binder->module(hf + "post_attention_layernorm", ours + "attention_post_norm");
    binder->module(hf + "pre_feedforward_layernorm", ours + "mlp_norm");
    binder->module(hf + "post_feedforward_layernorm", ours + "mlp_post_norm");
  } else {
    binder->module(hf + "post_attention_layernorm", ours + "mlp_norm");
  }
}

/// Adds what a layer that predicts further tokens has besides a layer's parameters. Its copies of the
/// embedding and of the head are no parameters (tensor_copies).
void bind_further_layer(int64_t layer, Binder* binder) {
  const std::string hf = fmt::format("model.layers.{}.", layer), ours = fmt::format("blocks.{}.", layer);
  binder->module(hf + "enorm", ours + "embedding_norm");
  binder->module(hf + "hnorm", ours + "hidden_norm");
  binder->module(hf + "eh_proj", ours + "join");
  binder->module(hf + "shared_head.norm", ours + "final_norm");
}

void bind_gated(std::string_view family, const nn::ModelConfig& model, const ExpertStyle& style,
                Binder* binder) {
  binder->add("model.embed_tokens.weight", {"embedding.tokens.weight"});
  for (int64_t i = 0; i < model.blocks(); ++i) bind_gated_layer(family, model, i, style, binder);
  for (int64_t i = model.layers; i < model.blocks() && predicts_further(family); ++i)
    bind_further_layer(i, binder);
  binder->module("model.norm", "final_norm");
}

}  // namespace

ExpertStyle expert_style(const std::vector<std::string>& stored_names) {
  ExpertStyle style;
  for (const std::string& name : stored_names) {
    style.fused = style.fused || name.ends_with(".experts.gate_up_proj");
    style.plain_names = style.plain_names || name.ends_with(".mlp.gate.weight");
  }
  return style;
}

std::vector<TensorCopy> tensor_copies(const nn::ModelConfig& model, const std::string& embedding) {
  const std::string head = "lm_head.weight", &of_head = model.tied_head ? embedding : head;
  std::vector<TensorCopy> copies;
  if (model.tied_head) copies.push_back({head, embedding});
  for (int64_t i = model.layers; i < model.blocks(); ++i) {
    copies.push_back({fmt::format("model.layers.{}.embed_tokens.weight", i), embedding});
    copies.push_back({fmt::format("model.layers.{}.shared_head.head.weight", i), of_head});
  }
  return copies;
}

std::vector<Binding> bindings(std::string_view family, const nn::ModelConfig& model,
                              const nn::ParameterTable& table, Absent absent, const ExpertStyle& experts) {
  if (find_family(family) == nullptr)
    fail(Code::kInvalidArgument, "'{}' is not a Hugging Face model type that Hawser supports", family);
  Binder binder(table, absent);
  if (family == "gpt2") {
    bind_gpt2(model, &binder);
  } else {
    bind_gated(family, model, experts, &binder);
  }
  binder.add("lm_head.weight", {"head.weight"});
  binder.add("score.weight", {nn::kScoreWeight});
  return binder.finish(family, model);
}

}  // namespace hawser::checkpoint::hf
