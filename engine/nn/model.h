// Model: the embedding, blocks and head of one model, or one tensor-parallel rank's share of them, and the
// cost of each. It does not depend on schedules, and on other ranks only through the Exchange of a call.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/base/exchange_note.h"
#include "engine/base/kernel_calls.h"
#include "engine/nn/block.h"
#include "engine/nn/embedding.h"
#include "engine/nn/head.h"
#include "engine/nn/lookup_gradient.h"
#include "engine/nn/model_config.h"
#include "engine/nn/parameter.h"

namespace hawser::nn {

class Model {
 public:
  /// `tp` ranks divide the model and `ep` ranks its experts; every rank constructs the same Model. Rows of
  /// zeros pad the tables of the vocabulary to multiples of `tile_rows` rows.
  explicit Model(const ModelConfig& config, bool scale_residual = true, const TrainedParts& parts = {},
                 int64_t tp = 1, const MoeTraining& moe = {}, int64_t ep = 1, int64_t tile_rows = 1);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelConfig& config() const { return config_; }  ///< config of the full model
  const ModelConfig& local() const { return local_; }    ///< config of a rank's share of each block
  const MoeTraining& moe_training() const { return moe_; }
  const ParameterTable& table() const { return table_; }
  const Embedding& embedding() const { return embedding_; }
  const Block& block(int64_t layer) const { return blocks_[static_cast<size_t>(layer)]; }
  const Head& head() const { return *head_; }

  /// True if the loss reads the embedding's table, as a tied head or for prediction depths, and the table is
  /// trained, so that two gradients are added.
  bool trains_shared_table() const;
  /// Returns what balances the routers of a block (0: embedding, layers + 1: head); none if it has no
  /// experts.
  const std::vector<const Balance*>& balances(int64_t block) const {
    return balances_[static_cast<size_t>(block)];
  }
  /// Returns the lowest block (0: embedding) with trainable parameters. No gradient is computed below it.
  int64_t first_trainable_block() const;

  /// Returns the number of parameters that one token uses in matrix products: with the head, without the
  /// embedding look-up, and top_k of the experts.
  int64_t matmul_parameters() const;
  /// Returns the number of parameters without the experts to which a token is not routed.
  int64_t active_parameters() const;
  /// Returns the training FLOPs of one token in rows of `seq`: 6 per matmul parameter + 3 L T H (D + V)
  /// (causal attention).
  double flops_per_token(int64_t seq) const;

 private:
  ModelConfig config_, local_;
  MoeTraining moe_;
  ParameterTable table_;
  Embedding embedding_;
  std::vector<Block> blocks_;
  std::unique_ptr<const Head> head_;
  std::vector<std::vector<const Balance*>> balances_;  // by block
};

/// Bytes and FLOPs of one call, counted by running the module over kernels that do nothing.
struct CallCost {
  int64_t workspace = 0, saved = 0;
  double flops = 0;
  Work work;  ///< calls of kernels; their FLOPs add up to `flops`
  std::vector<ExchangeNote> exchanges;
  int64_t kept = 0;                     ///< the part of `saved` that the weight pass reads (BlockRegions)
  int64_t made = 0;                     ///< intermediates that the input pass stores for the weight pass
  int64_t remade = 0, remade_kept = 0;  ///< as `saved` and `kept`, of the activations that RECOMPUTE rebuilds
};

/// Selects how blocks compute their gradients.
struct BackwardForm {
  bool halves = false;  ///< also measure the input pass and the weight pass
  RecomputeSet remakes{};
  CompressSet compress{};
  bool rounds_in_kernels = false;   ///< kernels of blocks write gradients in the look-up type
  kernels::Teacher teacher{};       ///< of the targets, without rows
  LookupGradient::Sizes lookups{};  ///< of a tied embedding whose look-ups have a gradient of their own
};

struct ModelCosts {
  CallCost embedding_forward, embedding_backward;
  std::vector<CallCost> block_forward, block_backward;
  /// Forwards that compute the last sum of the block below, that leave their own, and that do both; empty if
  /// blocks do not defer sums. The lowest block has no block below, so it never computes such a sum.
  std::array<std::vector<CallCost>, 3> block_forward_deferring;
  int64_t branch = 0;  ///< most bytes that a block leaves for its last sum
  std::vector<CallCost> block_backward_input, block_backward_weight;  ///< empty unless BackwardForm::halves
  std::vector<CallCost> block_recompute;  ///< without y; empty if nothing is recomputed
  std::vector<CallCost> block_repeat;     ///< of a recomputed forward with y, also empty then
  CallCost loss, loss_eval, logits;
  CallCost loss_of_sum, loss_eval_of_sum;  ///< with the last sum of the highest block, if blocks defer sums
  CallCost round_dx;  ///< rounds the gradient of the residual stream for the first backward of a block
  CallCost join;      ///< of look-ups with the gradient of the head; 0 without BackwardForm::lookups
};

/// Measures the costs of micro-batches of [batch, seq] with weights of `types`, on a stream of `workers`,
/// with the workspace needs of `kernels`. `chunk_logits`: logits pass through a chunk in the workspace,
/// because kernels cannot write the caller's memory. `exchange` and `columns` must move no data; their
/// workspace and the bytes that they would send are counted. `seq` is the number of local columns.
ModelCosts measure_costs(const Model& model, const kernels::KernelTable& kernels, int32_t workers,
                         WeightTypes types, int64_t batch, int64_t seq, bool training,
                         bool chunk_logits = false, const Exchange& exchange = kAlone,
                         const ColumnExchange& columns = kAllColumns, ExchangeNotes* notes = nullptr,
                         const BackwardForm& form = {}, const ExpertExchange& experts = kAllExperts);

/// Returns the most workspace that one generation call needs: `rows` new positions, up to `capacity` cached,
/// and the logits of one.
int64_t measure_cached_workspace(const Model& model, const kernels::KernelTable& kernels, int32_t workers,
                                 WeightTypes types, int64_t rows, int64_t capacity, bool chunk_logits = false,
                                 const Exchange& exchange = kAlone,
                                 const ExpertExchange& experts = kAllExperts);

}  // namespace hawser::nn
