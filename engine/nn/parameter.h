// The parameter table: every parameter of a model, its global name and shape, where it lies in the flat
// buffers and how it starts. One declaration serves modules, optimizer, checkpoints, conversion and initial
// values.
//
// Names (i = layer):
//   embedding.tokens.weight [vocab, width]          embedding.positions.weight [context, width]
//   blocks.i.attention_norm.{weight,bias} [width]
//   blocks.i.attention.{q,k,v}.{weight [heads*head_dim or kv_heads*head_dim, width], bias}
//   blocks.i.attention.{q_norm,k_norm}.weight [head_dim]
//   blocks.i.attention.o.{weight [width, heads*head_dim], bias}
//   blocks.i.attention_post_norm.weight [width]
//   blocks.i.mlp_norm.{weight,bias}
//   blocks.i.mlp.{gate,up}.{weight [mlp_width, width], bias}     blocks.i.mlp.down.{weight [width,
//   mlp_width], bias} blocks.i.mlp_post_norm.weight final_norm.{weight,bias}      head.weight [vocab, width]
//   (absent when tied)
// Linear weights are [out, in].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/nn/model_config.h"

namespace hawser::nn {

/// How a parameter starts: normal(0, scale * init.std), or a constant.
struct InitialValue {
  enum class Kind { kNormal, kConstant } kind = Kind::kNormal;
  double value = 1.0;  ///< factor on init.std, or the constant
};

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  int64_t block = 0;   ///< 0: embedding, 1..layers: blocks, layers + 1: final norm and head
  int64_t offset = 0;  ///< first element in the flat buffers
  int64_t size = 0;    ///< elements
  bool decay = true;   ///< takes weight decay (two or more dimensions)
  InitialValue initial;
};

/// All parameters in flat order. Blocks are contiguous; parts that one kernel reads together (q, k, v; gate,
/// up) lie back to back, everything else starts at a multiple of kParameterAlign elements.
class ParameterTable {
 public:
  static constexpr int64_t kParameterAlign = 16;

  explicit ParameterTable(const ModelConfig& model, bool scale_residual = true);

  const std::vector<Parameter>& all() const { return parameters_; }
  const Parameter* find(std::string_view name) const;  ///< null if there is none
  const Parameter& at(std::string_view name) const;    ///< throws kNotFound
  int64_t flat_size() const { return flat_size_; }     ///< elements of a flat buffer, padding included
  int64_t count() const { return count_; }             ///< parameters, padding not included

 private:
  void add(std::string name, std::vector<int64_t> shape, int64_t block, InitialValue initial,
           bool packed = false);

  std::vector<Parameter> parameters_;
  int64_t flat_size_ = 0, count_ = 0;
};

}  // namespace hawser::nn
