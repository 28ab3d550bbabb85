// Optimizer config: settings of the optimizer, the learning-rate schedule, the guard against bad steps, and
// the loss scale.
// The schema (capi/schema/optimizer.fbs, config.fbs) has the defaults and the names of enums, which have the
// same numbers here. Each struct is followed by the rows of its section: each_key calls visit(key, member)
// for every key of the config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hawser::optim {

enum class OptimizerKind { kAdamW, kSgd, kLion, kMuon, kAdamW8 };
/// The factor on the update of a matrix [r, c] by Muon: 0.2 sqrt(max(r, c)), with which an update is as large
/// as one of AdamW, or sqrt(max(1, r / c)).
enum class MuonScale { kMatchAdamW, kSpectral };
/// Settings of some parameters. Members that are not set have the values of the section.
struct OptimizerRule {
  std::string of;  ///< pattern (* and ?) for names of parameters
  std::optional<OptimizerKind> kind;
  double rate = 1;              ///< factor on the learning rate
  std::optional<double> decay;  ///< weight decay, also of vectors
};
void each_key(OptimizerRule& r, auto&& visit) {
  visit("of", r.of);
  visit("kind", r.kind);
  visit("rate", r.rate);
  visit("decay", r.decay);
}

struct OptimizerConfig {
  OptimizerKind kind = OptimizerKind::kAdamW;
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0, eps = 0;
  double weight_decay = 0;
  double momentum = 0;
  bool nesterov = false;
  double muon_momentum = 0;
  MuonScale muon_scale = MuonScale::kMatchAdamW;
  bool muon_heads = false;           ///< each head of queries, keys and values is a matrix
  double clip_norm = 0;              ///< 0: no clipping
  std::vector<std::string> frozen;   ///< patterns (* and ?) for names of parameters that are not trained
  std::vector<OptimizerRule> rules;  ///< the first rule that names a parameter applies
  std::optional<double> average;     ///< decay of the moving average of the weights; none: no average
  std::optional<double> qk_clip;     ///< limit of attention scores (score_clip.h); none: no limit
};
void each_key(OptimizerConfig& o, auto&& visit) {
  visit("kind", o.kind);
  visit("learning_rate", o.learning_rate);
  visit("beta1", o.beta1);
  visit("beta2", o.beta2);
  visit("eps", o.eps);
  visit("weight_decay", o.weight_decay);
  visit("momentum", o.momentum);
  visit("nesterov", o.nesterov);
  visit("muon_momentum", o.muon_momentum);
  visit("muon_scale", o.muon_scale);
  visit("muon_heads", o.muon_heads);
  visit("clip_norm", o.clip_norm);
  visit("frozen", o.frozen);
  visit("rules", o.rules);
  visit("average", o.average);
  visit("qk_clip", o.qk_clip);
}

enum class ScheduleKind { kConstant, kLinear, kCosine, kWsd, kInverseSqrt };
enum class DecayShape { kLinear, kSqrt };
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;   ///< steps after which the minimum is reached
  int64_t stable_steps = 0;  ///< wsd: steps at the peak rate after warm-up
  double min_learning_rate = 0;
  DecayShape decay_shape = DecayShape::kLinear;  ///< wsd
};
void each_key(ScheduleConfig& s, auto&& visit) {
  visit("kind", s.kind);
  visit("warmup_steps", s.warmup_steps);
  visit("decay_steps", s.decay_steps);
  visit("stable_steps", s.stable_steps);
  visit("min_learning_rate", s.min_learning_rate);
  visit("decay_shape", s.decay_shape);
}

enum class OutlierPolicy { kKeep, kSkip, kRewind };
struct GuardConfig {
  bool skip_non_finite = false;
  OutlierPolicy outlier = OutlierPolicy::kKeep;
  double outlier_z = 0;               ///< limit of Window::robust_z, for loss and gradient norm
  int64_t max_consecutive_skips = 0;  ///< training stops with HWS_NUMERIC after so many in a row
  int64_t max_rewinds = 0;            ///< to one checkpoint; training stops with HWS_NUMERIC after more
};
void each_key(GuardConfig& g, auto&& visit) {
  visit("skip_non_finite", g.skip_non_finite);
  visit("outlier", g.outlier);
  visit("outlier_z", g.outlier_z);
  visit("max_consecutive_skips", g.max_consecutive_skips);
  visit("max_rewinds", g.max_rewinds);
}

struct LossScaleConfig {
  double initial = 1;        ///< power of two
  int64_t growth_every = 0;  ///< finite steps in a row after which the scale doubles
  double backoff = 2;        ///< power of two, by which dropped steps divide the scale
  int64_t patience = 1;      ///< dropped steps in a row that divide it
  double minimum = 1;        ///< power of two
  double fixed = 0;          ///< power of two that never changes; 0: none
};
void each_key(LossScaleConfig& s, auto&& visit) {
  visit("initial", s.initial);
  visit("growth_every", s.growth_every);
  visit("backoff", s.backoff);
  visit("patience", s.patience);
  visit("minimum", s.minimum);
  visit("fixed", s.fixed);
}

}  // namespace hawser::optim
