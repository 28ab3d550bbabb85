#include "engine/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "engine/nn/initial_values.h"

namespace hawser::optim {

int64_t moment_count(const OptimizerConfig& config) {
  if (config.kind == OptimizerKind::kAdamW) return 2;
  return config.momentum > 0 ? 1 : 0;
}

Optimizer::Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config, DType state,
                     uint64_t seed)
    : ranges_(table.groups().size()), config_(config), state_(state) {
  const bool rounds = state != DType::kF32;
  for (const nn::Parameter& p : table.all()) {
    std::vector<Range>& ranges = ranges_[static_cast<size_t>(p.group)];
    if (!rounds && !ranges.empty() && ranges.back().decay == p.decay)
      ranges.back().end = p.offset + p.room;
    else
      ranges.push_back({p.offset, p.offset + p.room, p.decay,
                        rounds ? nn::random_key(seed, p, nn::RandomUse::kRounding) : 0});
  }
}

kernels::OptimizerScalars Optimizer::scalars(double learning_rate, double clip, int64_t count) const {
  const double t = static_cast<double>(count);
  return {static_cast<float>(learning_rate), static_cast<float>(clip),
          static_cast<float>(1.0 - std::pow(config_.beta1, t)),
          static_cast<float>(1.0 - std::pow(config_.beta2, t)), static_cast<uint64_t>(count)};
}

void Optimizer::step(int32_t group, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                     const kernels::KernelTable& kernels, Stream& stream) const {
  for (const Range& r : ranges_[static_cast<size_t>(group)]) {
    if (std::max(r.begin, run.begin) >= std::min(r.end, run.end)) continue;
    if (state_ == DType::kF32)
      step_f32(r, run, scalars, kernels, stream);
    else
      step_bf16(r, run, scalars, kernels, stream);
  }
}

void Optimizer::step_f32(const Range& r, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                         const kernels::KernelTable& kernels, Stream& stream) const {
  const int64_t begin = std::max(r.begin, run.begin), n = std::min(r.end, run.end) - begin,
                at = begin - run.begin;
  const auto of = [at](void* p) { return p ? static_cast<float*>(p) + at : nullptr; };
  const auto* const gradients = static_cast<const float*>(run.gradients) + at;
  const float decay = r.decay ? static_cast<float>(config_.weight_decay) : 0.0f;
  void* const copy = run.copy ? static_cast<char*>(run.copy) + at * dtype_bytes(DType::kBf16) : nullptr;
  if (config_.kind == OptimizerKind::kAdamW) {
    kernels.adamw({of(run.weights), copy, of(run.moment1), of(run.moment2), gradients, scalars, n,
                   static_cast<float>(config_.beta1), static_cast<float>(config_.beta2),
                   static_cast<float>(config_.eps), decay},
                  stream);
  } else {
    kernels.sgd({of(run.weights), copy, of(run.moment1), gradients, scalars, n,
                 static_cast<float>(config_.momentum), decay, config_.nesterov},
                stream);
  }
}

/// Elements are numbered within their parameter, so that random rounding does not depend on groups or shards.
void Optimizer::step_bf16(const Range& r, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                          const kernels::KernelTable& kernels, Stream& stream) const {
  const int64_t begin = std::max(r.begin, run.begin), n = std::min(r.end, run.end) - begin,
                at = (begin - run.begin) * dtype_bytes(DType::kBf16);
  const auto of = [at](void* p) -> void* { return p ? static_cast<char*>(p) + at : nullptr; };
  const void* const gradients = static_cast<const char*>(run.gradients) + at;
  const float decay = r.decay ? static_cast<float>(config_.weight_decay) : 0.0f;
  const kernels::RoundingRun rounded{r.key, begin - r.begin};
  if (config_.kind == OptimizerKind::kAdamW) {
    kernels.adamw_bf16({of(run.weights), of(run.moment1), of(run.moment2), gradients, scalars, n,
                        static_cast<float>(config_.beta1), static_cast<float>(config_.beta2),
                        static_cast<float>(config_.eps), decay, rounded},
                       stream);
  } else {
    kernels.sgd_bf16({of(run.weights), of(run.moment1), gradients, scalars, n,
                      static_cast<float>(config_.momentum), decay, config_.nesterov, rounded},
                     stream);
  }
}

}  // namespace hawser::optim
