#include "engine/nn/model.h"

namespace hawser::nn {

Model::Model(const ModelConfig& config, bool scale_residual, const std::vector<std::string>& frozen,
             int64_t tp)
    : config_(config),
      local_(local_model(config, tp)),
      table_(config_, scale_residual, frozen, tp),
      embedding_(table_, config_),
      head_(table_, config_) {
  blocks_.reserve(static_cast<size_t>(config.layers));
  for (int64_t layer = 0; layer < config.layers; ++layer) blocks_.emplace_back(table_, local_, layer);
}

bool Model::trains_tied_head() const {
  return config_.tied_head && table_.at("embedding.tokens.weight").trainable;
}

int64_t Model::first_trainable_block() const {
  for (const ParameterGroup& g : table_.groups())
    if (g.trainable) return g.block;
  return config_.layers + 1;
}

int64_t Model::matmul_parameters() const {
  int64_t count = 0;
  for (const Parameter& p : table_.all())
    if (p.shape.size() == 2 && p.block > 0) count += p.size;
  if (config_.tied_head) count += config_.vocab_size * config_.width;
  return count;
}

double Model::flops_per_token(int64_t seq) const {
  const double attention = 6.0 * static_cast<double>(config_.layers) * static_cast<double>(seq) *
                           static_cast<double>(config_.heads * config_.head_dim);
  return 6.0 * static_cast<double>(matmul_parameters()) + attention;
}

}  // namespace hawser::nn
