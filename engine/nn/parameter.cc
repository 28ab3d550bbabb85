#include "engine/nn/parameter.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/base/error.h"

namespace hawser::nn {

void ParameterTable::add(std::string name, std::vector<int64_t> shape, int64_t block, InitialValue initial,
                         bool packed) {
  int64_t size = 1;
  for (int64_t d : shape) size *= d;
  if (!packed) flat_size_ = (flat_size_ + kParameterAlign - 1) / kParameterAlign * kParameterAlign;
  parameters_.push_back({std::move(name), shape, block, flat_size_, size, shape.size() >= 2, initial});
  flat_size_ += size;
  count_ += size;
}

ParameterTable::ParameterTable(const ModelConfig& m, bool scale_residual) {
  using Kind = InitialValue::Kind;
  const InitialValue normal{Kind::kNormal, 1.0};
  const InitialValue into_residual{
      Kind::kNormal, scale_residual ? 1.0 / std::sqrt(2.0 * static_cast<double>(m.layers)) : 1.0};
  const InitialValue one{Kind::kConstant, 1.0 - m.norm_weight_offset}, zero{Kind::kConstant, 0.0};
  const int64_t q_width = m.heads * m.head_dim, kv_width = m.kv_heads * m.head_dim;
  const bool gated = m.mlp == MlpKind::kSwiGlu || m.mlp == MlpKind::kGeGlu;

  auto norm = [&](const std::string& name, int64_t block, int64_t width, bool may_have_bias = true) {
    add(name + ".weight", {width}, block, one);
    if (may_have_bias && m.norm == Norm::kLayerNorm && m.bias.norm) add(name + ".bias", {width}, block, zero);
  };

  add("embedding.tokens.weight", {m.vocab_size, m.width}, 0, normal);
  if (m.position == Position::kLearned) add("embedding.positions.weight", {m.context, m.width}, 0, normal);

  for (int64_t layer = 0; layer < m.layers; ++layer) {
    const std::string p = fmt::format("blocks.{}.", layer);
    const int64_t block = layer + 1;
    norm(p + "attention_norm", block, m.width);
    add(p + "attention.q.weight", {q_width, m.width}, block, normal);
    add(p + "attention.k.weight", {kv_width, m.width}, block, normal, true);
    add(p + "attention.v.weight", {kv_width, m.width}, block, normal, true);
    bool packed = false;
    for (const auto& [letter, width, has] :
         {std::tuple{"q", q_width, m.bias.q}, {"k", kv_width, m.bias.k}, {"v", kv_width, m.bias.v}}) {
      if (!has) continue;
      add(p + "attention." + letter + ".bias", {width}, block, zero, packed);
      packed = true;
    }
    if (m.qk_norm) {
      add(p + "attention.q_norm.weight", {m.head_dim}, block, one);
      add(p + "attention.k_norm.weight", {m.head_dim}, block, one);
    }
    add(p + "attention.o.weight", {m.width, q_width}, block, into_residual);
    if (m.bias.o) add(p + "attention.o.bias", {m.width}, block, zero);
    if (m.post_norm) norm(p + "attention_post_norm", block, m.width, false);
    norm(p + "mlp_norm", block, m.width);
    if (gated) add(p + "mlp.gate.weight", {m.mlp_width, m.width}, block, normal);
    add(p + "mlp.up.weight", {m.mlp_width, m.width}, block, normal, gated);
    if (gated && m.bias.gate) add(p + "mlp.gate.bias", {m.mlp_width}, block, zero);
    if (m.bias.up) add(p + "mlp.up.bias", {m.mlp_width}, block, zero, gated && m.bias.gate);
    add(p + "mlp.down.weight", {m.width, m.mlp_width}, block, into_residual);
    if (m.bias.down) add(p + "mlp.down.bias", {m.width}, block, zero);
    if (m.post_norm) norm(p + "mlp_post_norm", block, m.width, false);
  }

  norm("final_norm", m.layers + 1, m.width);
  if (!m.tied_head) add("head.weight", {m.vocab_size, m.width}, m.layers + 1, normal);
  flat_size_ = (flat_size_ + kParameterAlign - 1) / kParameterAlign * kParameterAlign;
}

const Parameter* ParameterTable::find(std::string_view name) const {
  for (const Parameter& p : parameters_)
    if (p.name == name) return &p;
  return nullptr;
}

const Parameter& ParameterTable::at(std::string_view name) const {
  if (const Parameter* p = find(name)) return *p;
  fail(Code::kNotFound, "there is no parameter named \"{}\" in this model", name);
}

}  // namespace hawser::nn
