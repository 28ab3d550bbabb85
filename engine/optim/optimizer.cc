#include "engine/optim/optimizer.h"

#include <cmath>

namespace hawser::optim {

int64_t moment_count(const OptimizerConfig& config) {
  if (config.kind == OptimizerKind::kAdamW) return 2;
  return config.momentum > 0 ? 1 : 0;
}

Optimizer::Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config) : config_(config) {
  for (const nn::Parameter& p : table.all()) {
    if (!ranges_.empty() && ranges_.back().decay == p.decay)
      ranges_.back().end = p.offset + p.size;
    else
      ranges_.push_back({p.offset, p.offset + p.size, p.decay});
  }
}

kernels::OptimizerScalars Optimizer::scalars(double learning_rate, double clip, int64_t count) const {
  const double t = static_cast<double>(count);
  return {static_cast<float>(learning_rate), static_cast<float>(clip),
          static_cast<float>(1.0 - std::pow(config_.beta1, t)),
          static_cast<float>(1.0 - std::pow(config_.beta2, t))};
}

void Optimizer::step(const OptimizerBuffers& b, const kernels::OptimizerScalars* scalars,
                     const kernels::KernelTable& kernels, Stream& stream) const {
  for (const Range& r : ranges_) {
    const float decay = r.decay ? static_cast<float>(config_.weight_decay) : 0.0f;
    void* const copy = b.copy ? static_cast<char*>(b.copy) + r.begin * dtype_bytes(DType::kBf16) : nullptr;
    if (config_.kind == OptimizerKind::kAdamW) {
      kernels.adamw({b.weights + r.begin, copy, b.moment1 + r.begin, b.moment2 + r.begin,
                     b.gradients + r.begin, scalars, r.end - r.begin, static_cast<float>(config_.beta1),
                     static_cast<float>(config_.beta2), static_cast<float>(config_.eps), decay},
                    stream);
    } else {
      kernels.sgd(
          {b.weights + r.begin, copy, b.moment1 ? b.moment1 + r.begin : nullptr, b.gradients + r.begin,
           scalars, r.end - r.begin, static_cast<float>(config_.momentum), decay, config_.nesterov},
          stream);
    }
  }
}

}  // namespace hawser::optim
