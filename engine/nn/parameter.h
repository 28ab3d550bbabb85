// Parameter table: the global name and shape of every parameter, its location in the flat buffers and its
// initial value. Modules, optimizer, checkpoints, conversion and initial values all use this one declaration.
//
// Names (i = layer):
//   embedding.tokens.weight [vocab, width]          embedding.positions.weight [context, width]
//   blocks.i.attention_norm.{weight,bias} [width]
//   blocks.i.attention.{q,k,v}.{weight [heads*head_dim or kv_heads*head_dim, width], bias}
//   blocks.i.attention.{q_norm,k_norm}.weight [head_dim]
//   blocks.i.attention.sinks [heads]
//   blocks.i.attention.o.{weight [width, heads*head_dim], bias}
//   blocks.i.attention_post_norm.weight [width]
// with latent attention, instead of q, k, v and o, with head_dim = nope + rope_dim:
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
// and in a sparse layer, instead of blocks.i.mlp:
//   blocks.i.moe.router.{weight [experts, width], bias, logit_bias [experts]}
//   blocks.i.moe.experts.{gate,up}.weight [experts, width of one, width]
//   blocks.i.moe.experts.down.weight [experts, width, width of one]
//   blocks.i.moe.experts.{gate,up}.bias [experts, width of one]
//   blocks.i.moe.experts.down.bias [experts, width]
//   blocks.i.moe.shared.{gate,up,down}.weight, as of an mlp; blocks.i.moe.shared_gate.weight [1, width]
//   final_norm.{weight,bias}
//   head.weight [vocab, width]                      (absent when tied), or score.weight [1, width]
// for each depth of multi-token prediction (nn/ahead_loss.h), with i = layers + depth, the parameters of a
// block and
//   blocks.i.{hidden_norm,embedding_norm,final_norm}.{weight,bias} [width]
//   blocks.i.join.weight [width, 2 width]
// Linear weights are [out, in]. A linear `X` of a block with an adapter (nn/adapter.h) also has
//   X.adapter_a.weight [rank, in]                   X.adapter_b.weight [out, rank]
//   X.adapter_m.weight [out], if rows have magnitudes (nn/magnitude.h)
// If q, k and v share one A, it is that of `attention.qkv`:
//   blocks.i.attention.qkv.adapter_a.weight         blocks.i.attention.{q,k,v}.adapter_b.weight
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/nn/model_config.h"

namespace hawser::nn {

/// The only weight of a score head.
inline constexpr const char* kScoreWeight = "score.weight";

/// The initial values of a parameter: normal(0, scale * init.std), a constant, or uniform between two bounds.
struct InitialValue {
  enum class Kind { kNormal, kConstant, kUniform } kind = Kind::kNormal;
  double value = 1.0;  ///< factor on init.std, the constant, or the magnitude of the bounds
};

/// The use of a parameter: as an operand of matrix products in the compute type (kProduct), or for look-ups,
/// norms and biases (kLookup). kExact is f32 even if look-ups are stored in a narrower type. kNf4 and kInt8
/// are kProduct, kept in records and decoded first (nn/nf4.h, kernels/include/block_records.h).
enum class Read : uint8_t { kProduct, kNf4, kInt8, kLookup, kExact };

/// True for weights that products read as they are stored, or decoded from masters' records.
inline bool is_product(Read read) { return read == Read::kProduct || read == Read::kInt8; }
/// True for weights that are kept in records. Their parameters begin at whole ones.
inline bool is_decoded(Read read) { return read == Read::kNf4 || read == Read::kInt8; }

/// The division of a parameter among the ranks of a tensor-parallel group (Shoeybi et al., arXiv:1909.08053):
/// along one dim, into pieces that are not divided further. Every rank has room for the same number of
/// pieces, rounded up.
struct TensorSplit {
  int64_t dim = -1;        ///< -1: not divided; every rank has the full parameter
  int64_t pieces = 0;      ///< heads, features or vocabulary rows; equal parts of the dim
  bool may_share = false;  ///< several ranks may have the same piece (key/value heads)
  bool experts = false;    ///< divided by expert-parallel ranks instead; the gradient is a sum over edp

  /// Returns the number of different shares: 1, as many as ranks, or the number of pieces.
  int64_t shares(int64_t tp, int64_t ep) const {
    if (dim < 0) return 1;
    if (experts) return ep;
    return may_share && pieces < tp ? pieces : tp;
  }
};

/// Which part of the gradient one tensor-parallel rank computes for a replicated parameter. Unless it is
/// kAll, the gradients must be summed over the group.
enum class GradientCoverage : uint8_t {
  kAll,
  /// Norms of queries and keys; in latent attention, the weights that all heads share; in an adapter, the
  /// factor that is not divided.
  kOwnHeads,
  /// Norms of a block, whose rows sequence parallelism divides (Korthikanti et al., arXiv:2205.05198), and
  /// experts.
  kOwnRows
};

/// Consecutive rows of one head. If the head's scores exceed the limit, they are multiplied by
/// pow(factor, power) (optim/score_clip.h).
struct ScaledRows {
  int64_t rows = 0;
  float power = 0;
};

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;        ///< shape of the full tensor; checkpoints and random values use it
  std::vector<int64_t> local_shape;  ///< shape of a rank's share, with padding; modules use it
  int64_t block = 0;   ///< 0: embedding, 1..layers: blocks, layers + 1: final norm, head and depths
  int32_t group = 0;   ///< index of its ParameterGroup
  int64_t offset = 0;  ///< first element in its parameter group
  int64_t size = 0;    ///< elements of the full tensor
  int64_t room = 0;    ///< elements of a rank's share in its parameter group, with padding
  int64_t zeros = 0;   ///< zeros after the share, so that products read full tiles
  int64_t scales = 0;  ///< Read::kNf4: its first scale among those of its parameter group
  bool nested = true;  ///< Read::kNf4: the absmax are quantised too
  TensorSplit cut;
  GradientCoverage covers = GradientCoverage::kAll;
  /// Row counts of the matrices into which Muon divides the weight. The pattern repeats until the last row:
  /// {a, b} means a rows, b rows, a rows, and so on. Empty: the weight, or each of its experts, is one
  /// matrix.
  std::vector<int64_t> matrix_rows;
  /// The rows of one head and how QK-Clip scales them. The pattern repeats head by head. Empty: QK-Clip never
  /// scales the parameter.
  std::vector<ScaledRows> scaled_rows;
  bool decay = true;  ///< weight decay applies (two or more dimensions, except biases of experts)
  Read read = Read::kProduct;
  bool trainable = true;
  bool balances = false;  ///< a router's bias, which each step moves against the load of experts
  bool adapter = false;   ///< a factor of an adapter, or its magnitudes
  int32_t rule = -1;      ///< index in TrainedParts::rules; -1 if no rule names it, or it is frozen
  InitialValue initial;

  /// True if the parameter belongs to the base model of an adapter and never changes.
  bool in_base() const { return !trainable && !adapter && !balances; }
};

/// True for the weight of a linear of a block, which may have an adapter. Experts and routers have none.
bool is_linear(const Parameter& parameter);
/// True if the share of each tensor-parallel rank consists of undivided NF4 records, which are blocks of the
/// full tensor (nn/nf4.h).
bool has_whole_records(const Parameter& parameter);
/// Returns the parameter's name without the last component: `blocks.3.attention.q`.
std::string module_of(const Parameter& parameter);
/// True if `pattern` (with * and ?) matches the parameter's name.
bool is_named_by(const Parameter& parameter, const std::string& pattern);

/// A parameter group: the parameters of one block that are stored alike, as one range of elements, which is
/// the unit of sharding. Gradients, masters and moments of a parameter group are ranges of equal length.
/// Under tensor parallelism, all its parameters have the same number of shares, and their gradients cover the
/// same part.
struct ParameterGroup {
  int64_t block = 0;
  bool trainable = true;
  Read read = Read::kProduct;
  int64_t elements = 0;  ///< on one rank; a multiple of kGroupAlign; gaps are zero
  int64_t scales = 0;    ///< f32 scales of all its parameters, in full on every rank; 0 unless Read::kNf4
  int64_t shares = 1;    ///< TensorSplit::shares of its parameters
  GradientCoverage covers = GradientCoverage::kAll;
  bool experts = false;   ///< TensorSplit::experts
  int32_t optimizer = 0;  ///< one of TrainedParts::Optimizers; 0 if it is frozen
};

/// True for a weight of a block that products multiply: an optimizer of matrices takes it by default. Norms,
/// biases, magnitudes, routers, tables and the head are others.
bool is_block_matrix(const Parameter& parameter);
/// True for one matrix, or several of the same shape (experts), of two or more rows. Biases of experts are
/// vectors.
inline bool has_matrices(const Parameter& p) {
  return p.decay && p.shape.size() >= 2 && p.shape[p.shape.size() - 2] > 1;
}

/// Which parameters are trained, and by which optimizer. Patterns (with * and ?) match names of parameters.
struct TrainedParts {
  /// optim::OptimizerKind as numbers. Parameters of different kinds have different parameter groups, because
  /// the kinds keep different arrays.
  struct Optimizers {
    int32_t matrices = 0;  ///< of weights for which is_block_matrix is true
    int32_t others = 0;
  };
  struct Rule {
    std::string of;
    Optimizers optimizers;
    bool only_matrices = false;  ///< its optimizer has no meaning for a vector
  };
  std::vector<std::string> frozen;  ///< parameters that are not trained
  std::vector<Rule> rules;          ///< the first rule that names a parameter applies
  Optimizers optimizers;            ///< of parameters that no rule names
  /// Each head of queries, keys and values is a matrix (Parameter::matrix_rows).
  bool by_head = false;

  TrainedParts() = default;
  TrainedParts(std::vector<std::string> not_trained) : frozen(std::move(not_trained)) {}
};

/// The location of a parameter, for modules.
struct Place {
  int32_t group = -1;  ///< -1 if there is no such parameter
  int64_t offset = 0;
  Read read = Read::kProduct;
  int64_t scales = 0;  ///< Parameter::scales
  explicit operator bool() const { return group >= 0; }
};

/// All parameters, in the order of their blocks. Parts that one kernel reads together (q, k, v; gate, up) are
/// contiguous in their parameter group. Every other parameter starts at a multiple of kParameterAlign
/// elements, or at a record if it is kept in records.
class ParameterTable {
 public:
  static constexpr int64_t kParameterAlign = 16, kGroupAlign = 64;

  /// `tp` ranks divide the model, and `ep` its experts; locations are those on each rank. With an adapter,
  /// everything is frozen except the adapter and the parameters that its config trains too. Throws
  /// kConfigInvalid for a pattern without a match, and if the parts of one product are not trained alike.
  /// Rows of zeros follow each table of the vocabulary, up to a multiple of `tile_rows` rows
  /// (Parameter::zeros).
  explicit ParameterTable(const ModelConfig& model, bool scale_residual = true,
                          const TrainedParts& parts = {}, int64_t tp = 1, int64_t ep = 1,
                          int64_t tile_rows = 1);

  const std::vector<Parameter>& all() const { return parameters_; }
  const Parameter* find(std::string_view name) const;  ///< null if there is none
  const Parameter& at(std::string_view name) const;    ///< throws kNotFound
  Place place(std::string_view name) const;            ///< its group is -1 if there is none
  const std::vector<ParameterGroup>& groups() const { return groups_; }
  const ParameterGroup& group_of(const Parameter& p) const { return groups_[static_cast<size_t>(p.group)]; }
  int64_t count() const { return count_; }  ///< number of elements of all parameters, without padding
  int64_t trainable_count() const;
  const AdapterConfig& adapter() const { return adapter_; }
  int64_t tile_rows() const { return tile_rows_; }
  /// Returns the number of heads of a layer, including the padding of tensor-parallel ranks.
  int64_t scored_heads() const { return scored_heads_; }
  /// Returns the number of attention scores that a step records: scored_heads() for each layer.
  int64_t head_scores() const { return scored_heads_ * layers_; }

 private:
  struct Declaration {
    Parameter parameter;
    bool packed;  ///< contiguous with the declaration before it
  };
  class Declarations;
  int64_t tp_ = 1, ep_ = 1, tile_rows_ = 1, scored_heads_ = 0, layers_ = 0;
  TrainedParts parts_;
  AdapterConfig adapter_;
  void lay_out(const std::vector<Declaration>& block);
  void check_alike(const std::vector<Declaration>& block) const;
  int32_t optimizer_of(const Parameter& p) const;
  int64_t zero_rows(const Parameter& p) const;

  std::vector<Parameter> parameters_;
  // Indexes of parameters_ sorted by name, because models of 10,000 layers have 100,000 names.
  std::vector<size_t> by_name_;
  std::vector<ParameterGroup> groups_;
  int64_t count_ = 0;
};

}  // namespace hawser::nn
