#include "engine/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"
#include "engine/nn/initial_values.h"

namespace hawser::optim {

namespace {

mesh::Box whole(const nn::Parameter& p) {
  mesh::Box box;
  for (size_t d = 0; d < p.shape.size(); ++d) box.end[d] = p.shape[d];
  return box;
}

}  // namespace

int64_t moment_count(const OptimizerConfig& config) {
  switch (config.kind) {
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kSgd:
      return config.momentum > 0 ? 1 : 0;
  }
  fail(Code::kInternal, "no optimizer {}", static_cast<int>(config.kind));
}

Optimizer::Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config, DType state,
                     uint64_t seed, const std::function<mesh::Box(const nn::Parameter&)>& share)
    : ranges_(table.groups().size()), config_(config), state_(state) {
  for (const nn::Parameter& p : table.all()) {
    std::vector<Range>& ranges = ranges_[static_cast<size_t>(p.group)];
    if (state != DType::kF32)
      ranges.push_back(rounded_range(p, seed, share ? share(p) : whole(p)));
    else if (!ranges.empty() && ranges.back().decay == p.decay)
      ranges.back().end = p.offset + p.room;
    else
      ranges.push_back({p.offset, p.offset + p.room, p.decay, {}});
  }
}

/// The rows of a share may be apart in the full parameter, but one range and one kernel call cover them all.
Optimizer::Range Optimizer::rounded_range(const nn::Parameter& p, uint64_t seed, const mesh::Box& share) {
  const int64_t columns = p.shape.size() > 1 ? p.shape[1] : 1;
  const int64_t first = share.begin[0] * columns + (p.shape.size() > 1 ? share.begin[1] : 0);
  kernels::RoundingRun run{nn::random_key(seed, p, nn::RandomUse::kRounding), first};
  if (p.shape.size() > 1 && share.extent(1) < columns) run.width = share.extent(1), run.stride = columns;
  return {p.offset, p.offset + share.elements(), p.decay, run};
}

kernels::OptimizerScalars step_scalars(const OptimizerConfig& config, double learning_rate, double clip,
                                       int64_t count) {
  const double t = static_cast<double>(count);
  return {static_cast<float>(learning_rate), static_cast<float>(clip),
          static_cast<float>(1.0 - std::pow(config.beta1, t)),
          static_cast<float>(1.0 - std::pow(config.beta2, t)), static_cast<uint64_t>(count)};
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
  void* const copy = run.copy ? static_cast<char*>(run.copy) + at * dtype_bytes(run.copy_type) : nullptr;
  switch (config_.kind) {
    case OptimizerKind::kAdamW:
      kernels.adamw({of(run.weights), copy, of(run.moment1), of(run.moment2), gradients, scalars, n,
                     static_cast<float>(config_.beta1), static_cast<float>(config_.beta2),
                     static_cast<float>(config_.eps), decay, run.copy_type},
                    stream);
      break;
    case OptimizerKind::kSgd:
      kernels.sgd({of(run.weights), copy, of(run.moment1), gradients, scalars, n,
                   static_cast<float>(config_.momentum), decay, config_.nesterov, run.copy_type},
                  stream);
      break;
  }
}

/// Elements are numbered within the full parameter, so that stochastic rounding does not depend on segments,
/// groups or shards.
void Optimizer::step_bf16(const Range& r, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                          const kernels::KernelTable& kernels, Stream& stream) const {
  const int64_t begin = std::max(r.begin, run.begin), n = std::min(r.end, run.end) - begin,
                at = (begin - run.begin) * dtype_bytes(DType::kBf16);
  const auto of = [at](void* p) -> void* { return p ? static_cast<char*>(p) + at : nullptr; };
  const void* const gradients = static_cast<const char*>(run.gradients) + at;
  const float decay = r.decay ? static_cast<float>(config_.weight_decay) : 0.0f;
  kernels::RoundingRun rounded = r.rounded;
  rounded.first = kernels::rounded_element(r.rounded, begin - r.begin);
  if (rounded.width > 0) rounded.column = (begin - r.begin) % rounded.width;
  switch (config_.kind) {
    case OptimizerKind::kAdamW:
      kernels.adamw_bf16({of(run.weights), of(run.moment1), of(run.moment2), gradients, scalars, n,
                          static_cast<float>(config_.beta1), static_cast<float>(config_.beta2),
                          static_cast<float>(config_.eps), decay, rounded},
                         stream);
      break;
    case OptimizerKind::kSgd:
      kernels.sgd_bf16({of(run.weights), of(run.moment1), gradients, scalars, n,
                        static_cast<float>(config_.momentum), decay, config_.nesterov, rounded},
                       stream);
      break;
  }
}

}  // namespace hawser::optim
