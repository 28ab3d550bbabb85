#include "engine/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "engine/base/error.h"
#include "engine/nn/initial_values.h"
#include "engine/optim/muon.h"

namespace hawser::optim {

namespace {

mesh::Box whole(const nn::Parameter& p) {
  mesh::Box box;
  for (size_t d = 0; d < p.shape.size(); ++d) box.end[d] = p.shape[d];
  return box;
}

}  // namespace

const UpdateRule& rule_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdamW:
      return kAdamW;
    case OptimizerKind::kSgd:
      return kSgd;
    case OptimizerKind::kLion:
      return kLion;
    case OptimizerKind::kMuon:
      return kMuon;
    case OptimizerKind::kAdamW8:
      return kAdamW8;
  }
  fail(Code::kInternal, "no optimizer {}", static_cast<int>(kind));
}

StatesByKind states_by_kind(const OptimizerConfig& config, DType state) {
  StatesByKind states;
  for (size_t kind = 0; kind < kOptimizerKinds; ++kind) {
    states[kind] = rule_of(static_cast<OptimizerKind>(kind)).states(config, state);
    if (config.average) states[kind][plan::kAverageOfWeights] = DType::kF32;
  }
  return states;
}

nn::TrainedParts trained_parts(const OptimizerConfig& config) {
  nn::TrainedParts parts(config.frozen);
  const auto all = [](OptimizerKind kind) {
    return nn::TrainedParts::Optimizers{static_cast<int32_t>(kind), static_cast<int32_t>(kind)};
  };
  parts.optimizers = all(config.kind);
  // The section's Muon is for the matrices of blocks; all other parameters are AdamW's.
  if (config.kind == OptimizerKind::kMuon)
    parts.optimizers.others = static_cast<int32_t>(OptimizerKind::kAdamW);
  for (const OptimizerRule& rule : config.rules)
    parts.rules.push_back({rule.of, rule.kind ? all(*rule.kind) : parts.optimizers,
                           rule.kind && *rule.kind == OptimizerKind::kMuon});
  parts.by_head = config.muon_heads;
  return parts;
}

Optimizer::Optimizer(const nn::ParameterTable& table, const OptimizerConfig& config, DType state,
                     uint64_t seed, const std::function<mesh::Box(const nn::Parameter&)>& share)
    : ranges_(table.groups().size()), config_(config), state_(state), states_(states_by_kind(config, state)) {
  for (const nn::ParameterGroup& group : table.groups()) kinds_.push_back(kind_of(group));
  for (const nn::Parameter& p : table.all()) {
    std::vector<Range>& ranges = ranges_[static_cast<size_t>(p.group)];
    Range range = settings_of(p);
    matrices_.push_back({range.decay, range.rate});
    if (state != DType::kF32) {
      number_elements(&range, p, seed, share ? share(p) : whole(p));
      ranges.push_back(range);
    } else if (!ranges.empty() && ranges.back().decay == range.decay && ranges.back().rate == range.rate) {
      ranges.back().end = p.offset + p.room;
    } else {
      range.end = p.offset + p.room;
      ranges.push_back(range);
    }
  }
  for (const std::vector<Range>& ranges : ranges_) settings_.push_back(settings_without_gaps(ranges));
  if (config.qk_clip) clip_ = ScoreClip(table, *config.qk_clip, share ? share : whole);
}

/// Returns the settings of all elements of a group. Padding has those of the parameter before it.
std::vector<kernels::SettingsRun> Optimizer::settings_without_gaps(const std::vector<Range>& ranges) {
  std::vector<kernels::SettingsRun> runs;
  for (const Range& r : ranges) {
    if (!runs.empty()) runs.back().end = r.begin;
    runs.push_back({std::numeric_limits<int64_t>::max(), r.decay, r.rate});
  }
  return runs;
}

Optimizer::Range Optimizer::settings_of(const nn::Parameter& p) const {
  const OptimizerRule* const rule = p.rule < 0 ? nullptr : &config_.rules[static_cast<size_t>(p.rule)];
  const double decay = rule && rule->decay ? *rule->decay : p.decay ? config_.weight_decay : 0.0;
  return {p.offset, p.offset, static_cast<float>(decay), rule ? static_cast<float>(rule->rate) : 1.0f, {}};
}

/// The rows of a share may be apart in the full parameter, but one range and one kernel call cover them all.
void Optimizer::number_elements(Range* range, const nn::Parameter& p, uint64_t seed, const mesh::Box& share) {
  const int64_t columns = p.shape.size() > 1 ? p.shape[1] : 1;
  const int64_t first = share.begin[0] * columns + (p.shape.size() > 1 ? share.begin[1] : 0);
  kernels::RoundingRun run{nn::random_key(seed, p, nn::RandomUse::kRounding), first};
  if (p.shape.size() > 1 && share.extent(1) < columns) run.width = share.extent(1), run.stride = columns;
  range->end = range->begin + share.elements(), range->rounded = run;
}

kernels::OptimizerScalars step_scalars(const OptimizerConfig& config, double learning_rate, double clip,
                                       int64_t count) {
  const double t = static_cast<double>(count);
  return {static_cast<float>(learning_rate), static_cast<float>(clip),
          static_cast<float>(1.0 - std::pow(config.beta1, t)),
          static_cast<float>(1.0 - std::pow(config.beta2, t)), static_cast<uint64_t>(count)};
}

void Optimizer::step(int32_t group, const OptimizerRun& run, const kernels::OptimizerScalars* scalars,
                     const float* head_scores, const kernels::KernelTable& kernels, Stream& stream) const {
  update_ranges(group, run, scalars, kernels, stream);
  clip_.apply(group, run, head_scores, kernels, stream);
  if (config_.average) average(run, kernels, stream);
}

void Optimizer::update_ranges(int32_t group, const OptimizerRun& run,
                              const kernels::OptimizerScalars* scalars, const kernels::KernelTable& kernels,
                              Stream& stream) const {
  const OptimizerKind kind = kinds_[static_cast<size_t>(group)];
  const UpdateRule& rule = rule_of(kind);
  if (rule.unit == UpdateUnit::kMatrices) return;  // update_matrix
  const auto update = state_ == DType::kF32 ? rule.update : rule.update_bf16;
  if (update == nullptr)
    fail(Code::kUnimplemented, "optimizer \"{}\" does not support state of type {} (/precision)", rule.name,
         dtype_name(state_));
  if (rule.unit == UpdateUnit::kRecords) {
    UpdateCall now = call({run.begin, run.end, 0, 1, {}}, run, states_[static_cast<size_t>(kind)]);
    now.scalars = scalars, now.first = run.begin;
    now.runs = settings_[static_cast<size_t>(group)].data();
    if (now.n > 0) update(config_, now, kernels, stream);
    return;
  }
  for (const Range& r : ranges_[static_cast<size_t>(group)]) {
    if (std::max(r.begin, run.begin) >= std::min(r.end, run.end)) continue;
    UpdateCall now = call(r, run, states_[static_cast<size_t>(kind)]);
    now.scalars = scalars;
    update(config_, now, kernels, stream);
  }
}

/// Polyak and Juditsky, 1992, with exponential weights.
void Optimizer::average(const OptimizerRun& run, const kernels::KernelTable& kernels, Stream& stream) const {
  if (run.begin == run.end) return;
  const auto beta = static_cast<float>(*config_.average), rest = static_cast<float>(1 - *config_.average);
  void* const mean = run.states[plan::kAverageOfWeights];
  kernels.axpby(
      {mean, static_cast<const float*>(run.weights), mean, DType::kF32, run.end - run.begin, rest, beta},
      stream);
}

void Optimizer::add_momentum(float* m, float* u, const float* gradients, int64_t n,
                             const kernels::OptimizerScalars* scalars, const kernels::KernelTable& kernels,
                             Stream& stream) const {
  kernels.muon_momentum({m, u, gradients, scalars, n, static_cast<float>(config_.muon_momentum)}, stream);
}

void Optimizer::update_matrix(int32_t parameter, const MatrixUpdate& update,
                              const kernels::OptimizerScalars* scalars, const kernels::KernelTable& kernels,
                              Stream& stream) const {
  const MatrixSettings& s = matrices_[static_cast<size_t>(parameter)];
  const auto scale = static_cast<float>(muon_scale(config_, update.rows, update.columns));
  kernels.muon_update({update.weights, update.copy, update.direction, scalars, update.n, scale, s.decay,
                       update.copy_type, s.rate},
                      stream);
}

/// Elements are numbered within the full parameter, so that stochastic rounding does not depend on segments,
/// groups or shards.
UpdateCall Optimizer::call(const Range& r, const OptimizerRun& run, const StateTypes& kept) const {
  const int64_t begin = std::max(r.begin, run.begin), at = begin - run.begin;
  const auto from = [at](auto* p, DType type) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(p)>>, const char, char>;
    return p ? static_cast<Byte*>(p) + dtype_bytes(type, at) : nullptr;
  };
  UpdateCall c;
  c.weights = from(run.weights, state_), c.copy = from(run.copy, run.copy_type);
  c.gradients = from(run.gradients, state_);
  for (size_t s = 0; s < plan::kStateCount; ++s)
    if (kept[s]) c.states[s] = from(run.states[s], *kept[s]);
  c.n = std::min(r.end, run.end) - begin;
  c.decay = r.decay, c.rate = r.rate;
  c.copy_type = run.copy_type;
  c.rounded = r.rounded;
  if (state_ == DType::kF32) return c;
  c.rounded.first = kernels::rounded_element(r.rounded, begin - r.begin);
  if (c.rounded.width > 0) c.rounded.column = (begin - r.begin) % c.rounded.width;
  return c;
}

}  // namespace hawser::optim
