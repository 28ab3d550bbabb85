#include "engine/checkpoint/gguf/tensors.h"

#include <fmt/format.h>

#include <numeric>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/checkpoint/gguf/architecture.h"
#include "engine/nn/rope_table.h"

namespace hawser::checkpoint::gguf {
namespace {

constexpr int64_t kBufferNumbers = int64_t{1} << 18;  // numbers per buffer

int64_t row_length(const nn::Parameter& p) { return p.shape.size() > 1 ? p.shape.back() : 1; }

class Lister {
 public:
  Lister(const nn::ModelConfig& model, const nn::ParameterTable& table, bool rotates_pairs)
      : model_(model), table_(table), rotates_pairs_(rotates_pairs) {}

  /// Adds a tensor of whole parameters, one after the other along the first dim, if the model has them.
  Tensor* add(const std::string& name, std::vector<std::string> parameters) {
    Tensor tensor;
    tensor.name = name;
    for (const std::string& parameter : parameters) {
      const nn::Parameter* p = table_.find(parameter);
      if (p == nullptr) return nullptr;
      tensor.rows.push_back({tensor.rows.size(), 0, p->size / row_length(*p)});
      if (tensor.shape.empty()) {
        tensor.shape = p->shape;
      } else {
        tensor.shape[0] += p->shape[0];
      }
    }
    used_.insert(parameters.begin(), parameters.end());
    tensor.parameters = std::move(parameters);
    tensor.exact = tensor.shape.size() == 1;
    tensors_.push_back(std::move(tensor));
    return &tensors_.back();
  }

  void module(const std::string& name, const std::string& ours) {
    add(name + ".weight", {ours + ".weight"});
    add(name + ".bias", {ours + ".bias"});
  }

  void norm(const std::string& name, const std::string& ours) {
    if (Tensor* weight = add(name + ".weight", {ours + ".weight"}))
      weight->offset = model_.norm_weight_offset;
    add(name + ".bias", {ours + ".bias"});
  }

  /// Adds the module of queries or keys. Heads have `head_dim` rows, of which those from `from` on rotate.
  void rotated(const std::string& name, const std::string& ours, int64_t head_dim, int64_t from,
               bool reorder) {
    for (const char* part : {".weight", ".bias"})
      if (Tensor* tensor = add(name + part, {ours + part}); tensor != nullptr && reorder)
        reorder_rows(tensor, pair_order(tensor->shape[0], head_dim, from));
  }

  void zeros(const std::string& name, int64_t n) { add_vector(name, n); }
  void constant(const std::string& name, std::vector<float> values) {
    add_vector(name, std::ssize(values)).constant = std::move(values);
  }
  bool has(const std::string& parameter) const { return table_.find(parameter) != nullptr; }
  bool rotates_pairs() const { return rotates_pairs_; }
  const nn::ModelConfig& model() const { return model_; }

  std::vector<Tensor> finish() {
    for (const nn::Parameter& p : table_.all())
      if (!p.adapter && used_.count(p.name) == 0)
        fail(Code::kFailedPrecondition, "llama.cpp has no tensor for {}", p.name);
    return std::move(tensors_);
  }

 private:
  Tensor& add_vector(const std::string& name, int64_t n) {
    Tensor& tensor = tensors_.emplace_back();
    tensor.name = name;
    tensor.shape = {n};
    tensor.exact = true;
    return tensor;
  }

  static void reorder_rows(Tensor* tensor, const std::vector<int64_t>& order) {
    tensor->rows.clear();
    for (const int64_t row : order) {
      if (!tensor->rows.empty() && tensor->rows.back().first + tensor->rows.back().count == row) {
        ++tensor->rows.back().count;
      } else {
        tensor->rows.push_back({0, row, 1});
      }
    }
  }

  const nn::ModelConfig& model_;
  const nn::ParameterTable& table_;
  const bool rotates_pairs_;
  std::vector<Tensor> tensors_;
  std::set<std::string> used_;
};

/// Returns by how much the model's scaling divides the frequency of each pair of elements.
std::vector<float> frequency_divisors(const nn::ModelConfig& m) {
  nn::RopeConfig unscaled = m.rope;
  unscaled.scaling = nn::RopeScaling::kNone;
  std::vector<float> divisors;
  for (int64_t j = 0; j < m.rope_dim() / 2; ++j)
    divisors.push_back(static_cast<float>(nn::rope_frequency(j, m.rope_dim(), unscaled) /
                                          nn::rope_frequency(j, m.rope_dim(), m.rope)));
  return divisors;
}

void list_gpt2_block(const std::string& blk, const std::string& ours, Lister* list) {
  const int64_t width = list->model().width;
  const auto module = [&](const std::string& name, const std::vector<std::string>& parts, int64_t outs) {
    std::vector<std::string> weights, biases;
    for (const std::string& part : parts) {
      weights.push_back(ours + part + ".weight");
      biases.push_back(ours + part + ".bias");
    }
    list->add(blk + name + ".weight", weights);
    if (list->add(blk + name + ".bias", biases) == nullptr) list->zeros(blk + name + ".bias", outs);
  };
  module("attn_norm", {"attention_norm"}, width);
  module("attn_qkv", {"attention.q", "attention.k", "attention.v"}, 3 * width);
  module("attn_output", {"attention.o"}, width);
  module("ffn_norm", {"mlp_norm"}, width);
  module("ffn_up", {"mlp.up"}, list->model().mlp_width);
  module("ffn_down", {"mlp.down"}, width);
}

/// llama.cpp multiplies queries by the keys' half of kv_b instead of expanding the keys, so that half is
/// stored transposed for each head.
void list_latent_attention(const std::string& blk, const std::string& ours, Lister* list) {
  const nn::ModelConfig& m = list->model();
  const nn::LatentConfig& latent = m.latent;
  const bool reorder = !latent.interleaved;
  const int64_t plain = m.head_dim - latent.rope_dim;
  const std::string attention = ours + "attention.";
  list->module(blk + "attn_q_a", attention + "q_a");
  list->norm(blk + "attn_q_a_norm", attention + "q_a_norm");
  list->rotated(blk + "attn_q_b", attention + "q_b", m.head_dim, plain, reorder);
  list->rotated(blk + "attn_kv_a_mqa", attention + "kv_a", latent.kv_rank + latent.rope_dim, latent.kv_rank,
                reorder);
  list->norm(blk + "attn_kv_a_norm", attention + "kv_a_norm");
  const int64_t both = plain + latent.value_dim;
  if (Tensor* keys = list->add(blk + "attn_k_b.weight", {attention + "kv_b.weight"})) {
    keys->shape = {m.heads, latent.kv_rank, plain};
    keys->transposed = true;
    keys->rows.clear();
    for (int64_t head = 0; head < m.heads; ++head) keys->rows.push_back({0, head * both, plain});
  }
  if (Tensor* values = list->add(blk + "attn_v_b.weight", {attention + "kv_b.weight"})) {
    values->shape = {m.heads, latent.value_dim, latent.kv_rank};
    values->rows.clear();
    for (int64_t head = 0; head < m.heads; ++head)
      values->rows.push_back({0, head * both + plain, latent.value_dim});
  }
  list->module(blk + "attn_output", attention + "o");
}

void list_attention(const std::string& blk, const std::string& ours, Lister* list) {
  const std::string attention = ours + "attention.";
  const int64_t head_dim = list->model().head_dim;
  list->rotated(blk + "attn_q", attention + "q", head_dim, 0, list->rotates_pairs());
  list->rotated(blk + "attn_k", attention + "k", head_dim, 0, list->rotates_pairs());
  list->module(blk + "attn_v", attention + "v");
  list->module(blk + "attn_output", attention + "o");
  list->add(blk + "attn_sinks.weight", {attention + "sinks"});
  list->norm(blk + "attn_q_norm", attention + "q_norm");
  list->norm(blk + "attn_k_norm", attention + "k_norm");
}

void list_experts(const std::string& blk, const std::string& ours, Lister* list) {
  const std::string moe = ours + "moe.";
  if (Tensor* router = list->add(blk + "ffn_gate_inp.weight", {moe + "router.weight"})) router->exact = true;
  list->add(blk + "ffn_gate_inp.bias", {moe + "router.logit_bias"});
  list->add(blk + "exp_probs_b.bias", {moe + "router.bias"});
  for (const char* part : {"gate", "up", "down"}) {
    if (Tensor* biases = list->add(fmt::format("{}ffn_{}_exps.bias", blk, part),
                                   {fmt::format("{}experts.{}.bias", moe, part)}))
      biases->exact = true;
    list->add(fmt::format("{}ffn_{}_exps.weight", blk, part),
              {fmt::format("{}experts.{}.weight", moe, part)});
    list->add(fmt::format("{}ffn_{}_shexp.weight", blk, part),
              {fmt::format("{}shared.{}.weight", moe, part)});
  }
  if (Tensor* gate = list->add(blk + "ffn_gate_inp_shexp.weight", {moe + "shared_gate.weight"})) {
    gate->shape = {list->model().width};
    gate->exact = true;
  }
}

/// `mlp_norm`: the name of the norm before the MLP.
void list_gated_block(int64_t layer, const std::string& blk, const std::string& ours, const char* mlp_norm,
                      Lister* list) {
  list->norm(blk + "attn_norm", ours + "attention_norm");
  list->model().is_latent() ? list_latent_attention(blk, ours, list) : list_attention(blk, ours, list);
  list->norm(blk + "post_attention_norm", ours + "attention_post_norm");
  list->norm(blk + mlp_norm, ours + "mlp_norm");
  if (list->model().is_sparse(layer)) {
    list_experts(blk, ours, list);
  } else {
    for (const char* part : {"gate", "up", "down"})
      list->module(fmt::format("{}ffn_{}", blk, part), ours + "mlp." + part);
  }
  list->norm(blk + "post_ffw_norm", ours + "mlp_post_norm");
}

}  // namespace

std::vector<int64_t> pair_order(int64_t rows, int64_t head_dim, int64_t from) {
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  const int64_t half = (head_dim - from) / 2;
  for (int64_t head = 0; head < rows; head += head_dim)
    for (int64_t j = 0; j < half; ++j) {
      const int64_t first = head + from + j;  // of our halves
      order[static_cast<size_t>(head + from + 2 * j)] = first;
      order[static_cast<size_t>(head + from + 2 * j + 1)] = first + half;
    }
  return order;
}

std::vector<Tensor> tensors_of(std::string_view family, const nn::ModelConfig& model,
                               const nn::ParameterTable& table) {
  const auto [name, rotates_pairs] = architecture_of(family);
  Lister list(model, table, rotates_pairs);
  list.add("token_embd.weight", {"embedding.tokens.weight"});
  if (Tensor* positions = list.add("position_embd.weight", {"embedding.positions.weight"}))
    positions->exact = true;
  if (model.position == nn::Position::kRotary && model.rope.scaling == nn::RopeScaling::kLlama3)
    list.constant("rope_freqs.weight", frequency_divisors(model));
  const bool other_norm = name == "glm4moe" || name == "gpt-oss";
  const char* const mlp_norm = other_norm ? "post_attention_norm" : "ffn_norm";
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string blk = fmt::format("blk.{}.", layer), ours = fmt::format("blocks.{}.", layer);
    family == "gpt2" ? list_gpt2_block(blk, ours, &list)
                     : list_gated_block(layer, blk, ours, mlp_norm, &list);
  }
  list.norm("output_norm", "final_norm");
  if (family == "gpt2" && !list.has("final_norm.bias")) list.zeros("output_norm.bias", model.width);
  const bool needs_head =
      name == "qwen2moe" || name == "dots1" || name == "deepseek2" || name == "glm4moe" || name == "gpt-oss";
  list.add("output.weight", {model.tied_head && needs_head ? "embedding.tokens.weight" : "head.weight"});
  return list.finish();
}

void write_tensor(Writer* writer, const Tensor& tensor, const nn::ParameterTable& table,
                  const hf::ParameterSource& source) {
  if (!tensor.constant.empty()) return writer->append(tensor.constant.data(), std::ssize(tensor.constant));
  if (tensor.rows.empty()) {
    const std::vector<float> zeros(static_cast<size_t>(tensor.shape[0]));
    return writer->append(zeros.data(), std::ssize(zeros));
  }
  std::vector<const float*> data;
  for (const std::string& parameter : tensor.parameters) data.push_back(source(parameter));
  const bool as_stored = tensor.offset == 0 && tensor.factor == 1;
  std::vector<float> buffer;
  const auto flush = [&] {
    writer->append(buffer.data(), std::ssize(buffer));
    buffer.clear();
  };
  for (const Rows& rows : tensor.rows) {
    const int64_t length = row_length(table.at(tensor.parameters[rows.parameter]));
    const float* const first = data[rows.parameter] + rows.first * length;
    const int64_t numbers = rows.count * length;
    if (tensor.transposed) {
      for (int64_t column = 0; column < length; ++column)
        for (int64_t row = 0; row < rows.count; ++row) buffer.push_back(first[row * length + column]);
      flush();
    } else if (as_stored && numbers >= kBufferNumbers) {
      if (!buffer.empty()) flush();
      writer->append(first, numbers);
    } else {
      for (int64_t i = 0; i < numbers; ++i)
        buffer.push_back(as_stored ? first[i] : static_cast<float>(first[i] * tensor.factor + tensor.offset));
      if (std::ssize(buffer) >= kBufferNumbers) flush();
    }
  }
  if (!buffer.empty()) flush();
}

}  // namespace hawser::checkpoint::gguf
