#include "engine/optim/optimizer.h"

#include <algorithm>
#include <cmath>

namespace hawser::optim {

int64_t moment_count(const OptimizerConfig& config) {
  if (config.kind == OptimizerKind::kAdamW) return 2;
  return config.momentum > 0 ? 1 : 0;
}

Optimizer::Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config)
    : ranges_(table.groups().size()), config_(config) {
  for (const nn::Parameter& p : table.all()) {
    std::vector<Range>& ranges = ranges_[static_cast<size_t>(p.group)];
    if (!ranges.empty() && ranges.back().decay == p.decay)
      ranges.back().end = p.offset + p.size;
    else
      ranges.push_back({p.offset, p.offset + p.size, p.decay});
  }
}

kernels::OptimizerScalars Optimizer::scalars(double learning_rate, double clip, int64_t count) const {
  const double t = static_cast<double>(count);
  return {static_cast<float>(learning_rate), static_cast<float>(clip),
          static_cast<float>(1.0 - std::pow(config_.beta1, t)),
          static_cast<float>(1.0 - std::pow(config_.beta2, t))};
}

void Optimizer::step(int32_t group, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                     const kernels::KernelTable& kernels, Stream& stream) const {
  for (const Range& r : ranges_[static_cast<size_t>(group)]) {
    const int64_t begin = std::max(r.begin, run.begin), end = std::min(r.end, run.end),
                  at = begin - run.begin;
    if (begin >= end) continue;
    const float decay = r.decay ? static_cast<float>(config_.weight_decay) : 0.0f;
    void* const copy = run.copy ? static_cast<char*>(run.copy) + at * dtype_bytes(DType::kBf16) : nullptr;
    if (config_.kind == OptimizerKind::kAdamW) {
      kernels.adamw({run.weights + at, copy, run.moment1 + at, run.moment2 + at, run.gradients + at, scalars,
                     end - begin, static_cast<float>(config_.beta1), static_cast<float>(config_.beta2),
                     static_cast<float>(config_.eps), decay},
                    stream);
    } else {
      kernels.sgd({run.weights + at, copy, run.moment1 ? run.moment1 + at : nullptr, run.gradients + at,
                   scalars, end - begin, static_cast<float>(config_.momentum), decay, config_.nesterov},
                  stream);
    }
  }
}

}  // namespace hawser::optim
