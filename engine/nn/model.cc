#include "engine/nn/model.h"

namespace hawser::nn {

namespace {

/// Returns the number of elements of a parameter that one token uses.
int64_t active_elements(const Parameter& p, const ModelConfig& model) {
  return p.shape.size() == 3 ? p.size / model.moe.experts * model.moe.top_k : p.size;
}

}  // namespace

Model::Model(const ModelConfig& config, bool scale_residual, const TrainedParts& parts, int64_t tp,
             const MoeTraining& moe, int64_t ep, int64_t tile_rows)
    : config_(config),
      local_(local_model(config, tp)),
      moe_(moe),
      table_(config_, scale_residual, parts, tp, ep, tile_rows),
      embedding_(table_, config_),
      head_(make_head(table_, config_, local_, moe_)) {
  blocks_.reserve(static_cast<size_t>(config.layers));
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks_.emplace_back(table_, local_, layer, moe_);
  balances_.resize(blocks_.size() + 2);
  for (size_t i = 0; i < blocks_.size(); ++i)
    if (const Balance* const balance = blocks_[i].balance()) balances_[i + 1] = {balance};
  balances_.back() = head_->balances();
}

bool Model::trains_shared_table() const {
  return config_.loss_reads_table() && table_.at("embedding.tokens.weight").trainable;
}

int64_t Model::first_trainable_block() const {
  for (const ParameterGroup& g : table_.groups())
    if (g.trainable) return g.block;
  return config_.layers + 1;
}

int64_t Model::matmul_parameters() const {
  int64_t count = 0;
  for (const Parameter& p : table_.all())
    if (p.decay && p.block > 0) count += active_elements(p, config_);  // matrices
  if (config_.tied_head) count += config_.vocab_size * config_.width;
  return count + config_.ahead * config_.vocab_size * config_.width;  // each depth multiplies the head, too
}

int64_t Model::active_parameters() const {
  int64_t count = 0;
  for (const Parameter& p : table_.all()) count += active_elements(p, config_);
  return count;
}

double Model::flops_per_token(int64_t seq) const {
  const double attention = 3.0 * static_cast<double>(config_.layers + config_.ahead) *
                           static_cast<double>(seq) *
                           static_cast<double>(config_.heads * (config_.head_dim + config_.value_dim()));
  return 6.0 * static_cast<double>(matmul_parameters()) + attention;
}

}  // namespace hawser::nn
