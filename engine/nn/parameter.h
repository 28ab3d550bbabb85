// The parameter table: the global name and shape of every parameter, its place in the flat buffers and its
// initial value. Modules, optimizer, checkpoints, conversion and initial values all use this one declaration.
//
// Names (i = layer):
//   embedding.tokens.weight [vocab, width]          embedding.positions.weight [context, width]
//   blocks.i.attention_norm.{weight,bias} [width]
//   blocks.i.attention.{q,k,v}.{weight [heads*head_dim or kv_heads*head_dim, width], bias}
//   blocks.i.attention.{q_norm,k_norm}.weight [head_dim]
//   blocks.i.attention.o.{weight [width, heads*head_dim], bias}
//   blocks.i.attention_post_norm.weight [width]
// with latent attention, in place of q, k, v and o, where head_dim = nope + rope_dim:
//   blocks.i.attention.q.{weight [heads*head_dim, width], bias}, or from compressed queries
//   blocks.i.attention.q_a.{weight [q_rank, width], bias}, q_a_norm.weight [q_rank],
//   q_b.weight [heads*head_dim, q_rank]
//   blocks.i.attention.kv_a.{weight [kv_rank+rope_dim, width], bias}, kv_a_norm.weight [kv_rank]
//   blocks.i.attention.kv_b.weight [heads*(nope+value_dim), kv_rank]
//   blocks.i.attention.o.{weight [width, heads*value_dim], bias}
//   blocks.i.mlp_norm.{weight,bias}
//   blocks.i.mlp.{gate,up}.{weight [mlp_width, width], bias}
//   blocks.i.mlp.down.{weight [width, mlp_width], bias}
//   blocks.i.mlp_post_norm.weight
// and in a sparse layer, in place of blocks.i.mlp:
//   blocks.i.moe.router.{weight [experts, width], bias}
//   blocks.i.moe.experts.{gate,up}.weight [experts, width of one, width]
//   blocks.i.moe.experts.down.weight [experts, width, width of one]
//   blocks.i.moe.shared.{gate,up,down}.weight, as of an mlp; blocks.i.moe.shared_gate.weight [1, width]
//   final_norm.{weight,bias}
//   head.weight [vocab, width]                      (absent when tied), or score.weight [1, width]
// Linear weights are [out, in]. A linear `X` of a block with an adapter (nn/adapter.h) has beside X.weight
//   X.adapter_a.weight [rank, in]                   X.adapter_b.weight [out, rank]
//   X.adapter_m.weight [out], where rows have magnitudes (nn/magnitude.h)
// where one A is read for q, k and v:
//   blocks.i.attention.qkv.adapter_a.weight         blocks.i.attention.{q,k,v}.adapter_b.weight
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/nn/model_config.h"

namespace hawser::nn {

/// Of a model that ends in a score.
inline constexpr const char* kScoreWeight = "score.weight";

/// How a parameter is initialised: normal(0, scale * init.std), a constant, or uniform between two bounds.
struct InitialValue {
  enum class Kind { kNormal, kConstant, kUniform } kind = Kind::kNormal;
  double value = 1.0;  ///< factor on init.std, the constant, or the bounds' magnitude
};

/// How a parameter is read: as an operand of matrix products in the compute type, or in f32 (look-ups, norms,
/// biases); kExact is f32 even where look-ups are stored narrower. kNf4: as kProduct, decoded before
/// (nn/nf4.h).
enum class Read : uint8_t { kProduct, kNf4, kLookup, kExact };

/// How the ranks of a tensor-parallel group divide a parameter (Shoeybi et al., arXiv:1909.08053): one dim,
/// into pieces that stay whole. Every rank has room for the same number of pieces, rounded up.
struct Cut {
  int64_t dim = -1;    ///< -1: not divided; every rank holds all of it
  int64_t pieces = 0;  ///< heads, features or words; equal parts of the dim
  bool may_share =
      false;             ///< with fewer pieces than ranks, several ranks hold the same one (key/value heads)
  bool experts = false;  ///< by the ranks of expert parallelism instead; its gradient is a sum over edp

  /// Number of different shares: 1, as many as ranks, or the number of pieces.
  int64_t shares(int64_t tp, int64_t ep) const {
    if (dim < 0) return 1;
    if (experts) return ep;
    return may_share && pieces < tp ? pieces : tp;
  }
};

/// What the gradient on one rank of a tensor-parallel group covers, if the parameter is not divided. Unless
/// that is everything, the gradient is the sum over the group.
enum class Covers : uint8_t {
  kAll,
  /// Norms of queries and keys; of latent attention, what all heads share; of an adapter, the factor that is
  /// whole
  kOwnHeads,
  /// Norms of a block, whose rows sequence parallelism divides (Korthikanti et al., arXiv:2205.05198), and
  /// experts
  kOwnRows
};

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;  ///< of the whole tensor, as in checkpoints; names, random keys, values use it
  std::vector<int64_t> local_shape;  ///< of a rank's share, with padding; modules use it
  int64_t block = 0;                 ///< 0: embedding, 1..layers: blocks, layers + 1: final norm and head
  int32_t group = 0;                 ///< its ParameterGroup
  int64_t offset = 0;                ///< first element in its group
  int64_t size = 0;                  ///< elements of the whole tensor
  int64_t room = 0;                  ///< elements of a rank's share in its group, with padding
  int64_t zeros = 0;                 ///< elements after them that stay zero, so that products read full tiles
  int64_t scales = 0;                ///< Read::kNf4: the first of its scales among those of its group
  bool nested = true;                ///< Read::kNf4: its absmax are quantised in turn
  Cut cut;
  Covers covers = Covers::kAll;
  bool decay = true;  ///< has weight decay (two or more dimensions)
  Read read = Read::kProduct;
  bool trainable = true;
  bool balances =
      false;  ///< a router's bias, which each step moves against the load of experts; it has no gradient
  bool adapter = false;  ///< a factor of an adapter, or its magnitudes
  InitialValue initial;

  /// Whether it never changes, where there is an adapter.
  bool in_base() const { return !trainable && !adapter && !balances; }
};

/// Whether it is the weight of a linear of a block, which may have an adapter. Experts are none, nor are
/// routers.
bool is_linear(const Parameter& parameter);
/// Whether what each rank of a tensor-parallel group has of it is whole records of NF4, blocks of the whole
/// tensor (nn/nf4.h).
bool has_whole_records(const Parameter& parameter);
/// Its name without the last word: `blocks.3.attention.q`.
std::string module_of(const Parameter& parameter);
/// Whether `pattern` (with * and ?) matches the parameter's name.
bool is_named_by(const Parameter& parameter, const std::string& pattern);

/// The parameters of one block that are stored alike: one run of elements, the unit of sharding. Gradients,
/// masters and moments of a group are runs of the same elements. Under tensor parallelism, all parameters of
/// a group have as many shares, and gradients that cover as much.
struct ParameterGroup {
  int64_t block = 0;
  bool trainable = true;
  Read read = Read::kProduct;
  int64_t elements = 0;  ///< on one rank; a multiple of kGroupAlign; gaps between parameters are zero
  int64_t scales = 0;    ///< f32, of all its parameters, whole on every rank; 0 unless Read::kNf4
  int64_t shares = 1;    ///< Cut::shares of its parameters
  Covers covers = Covers::kAll;
  bool experts = false;  ///< Cut::experts, where there are several ranks of expert parallelism
};

/// The place of a parameter, for modules.
struct Place {
  int32_t group = -1;  ///< -1 if there is no such parameter
  int64_t offset = 0;
  Read read = Read::kProduct;
  int64_t scales = 0;  ///< Parameter::scales
  explicit operator bool() const { return group >= 0; }
};

/// All parameters, in the order of their blocks. Parts that one kernel reads together (q, k, v; gate, up) are
/// contiguous in their group. Everything else starts at a multiple of kParameterAlign elements, and what is
/// in NF4 at a record.
class ParameterTable {
 public:
  static constexpr int64_t kParameterAlign = 16, kGroupAlign = 64;

  /// `frozen` holds patterns (with * and ?) for the names of parameters that are not trained. `tp` ranks
  /// divide the model, and `ep` its experts; places are those on each of them. With an adapter all else is
  /// frozen but what the adapter's config trains beside. Throws kConfigInvalid for a pattern without a match,
  /// and if only some parts of one product are frozen. Rows of zeros follow each table of the vocabulary, up
  /// to a multiple of `tile_rows` rows (Parameter::zeros).
  explicit ParameterTable(const ModelConfig& model, bool scale_residual = true,
                          const std::vector<std::string>& frozen = {}, int64_t tp = 1, int64_t ep = 1,
                          int64_t tile_rows = 1);

  const std::vector<Parameter>& all() const { return parameters_; }
  const Parameter* find(std::string_view name) const;  ///< null if there is none
  const Parameter& at(std::string_view name) const;    ///< throws kNotFound
  Place place(std::string_view name) const;            ///< with group -1 if there is none
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  int64_t count() const { return count_; }  ///< parameters, padding not included
  int64_t trainable_count() const;
  const AdapterConfig& adapter() const { return adapter_; }
  int64_t tile_rows() const { return tile_rows_; }

 private:
  struct Declaration;
  class Declarations;
  int64_t tp_ = 1, ep_ = 1, tile_rows_ = 1;
  AdapterConfig adapter_;
  void lay_out(const std::vector<Declaration>& block);
  int64_t zero_rows(const Parameter& p) const;

  std::vector<Parameter> parameters_;
  // Indexes of parameters_ sorted by name: models of 10,000 layers have 100,000 names
  std::vector<size_t> by_name_;
  std::vector<ParameterGroup> groups_;
  int64_t count_ = 0;
};

}  // namespace hawser::nn
