#include "engine/report/layout_bounds.h"

#include <algorithm>

#include "engine/assembly/engine_plans.h"
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::train {

StateBytes state_bytes(const config::ResolvedConfig& config) {
  const bool all_trained = !config.model.adapter.on() && config.optimizer.frozen.empty() &&
                           config.optimizer.rules.empty() &&
                           config.optimizer.kind == config::OptimizerKind::kAdamW;
  const bool offloads = config.offload.optimizer != config::OffloadSpace::kOff ||
                        config.offload.parameters != config::OffloadSpace::kOff ||
                        config.offload.gradients != config::OffloadSpace::kOff;
  if (!all_trained || offloads) return {};
  const double compute = static_cast<double>(dtype_bytes(compute_type(config))),
               state = static_cast<double>(dtype_bytes(state_type(config)));
  const bool records = config.zero.quantized_weights != parallel::QuantizedWeights::kOff;
  return {records ? 0 : compute, state, 2 * state + (compute < state ? state : 0)};
}

LayoutBounds::LayoutBounds(const nn::Model& model, const config::ResolvedConfig& base,
                           const cluster::Cluster& cluster)
    : base_(base),
      cluster_(cluster),
      state_(state_bytes(base)),
      parameters_(static_cast<double>(model.table().count())),
      tokens_(static_cast<double>(base.batch.global_batch * base.batch.sequence)),
      ranks_flops_(model.flops_per_token(1)),
      peak_(cluster.device.peak(compute_type(base))) {
  const double width = static_cast<double>(base.model.width);
  const double head = 6 * width * static_cast<double>(base.model.vocab_size);
  layer_flops_ = std::max(0.0, ranks_flops_ - head) / 3 / static_cast<double>(base.model.layers);
}

double LayoutBounds::least_bytes(const LayoutChoice& c, int64_t zero_stage) const {
  const auto shards = static_cast<double>(c.dp_shard * c.cp);
  const double own = parameters_ / static_cast<double>(c.pp * c.tp * c.ep);
  const auto share = [&](int64_t from) { return zero_stage >= from ? 1 / shards : 1; };
  return own * (state_.weight * share(3) + state_.gradient * share(2) + state_.optimizer * share(1));
}

double LayoutBounds::least_seconds(const LayoutChoice& c) const {
  const auto ranks = static_cast<double>(c.pp * c.tp * c.cp * c.dp());
  const bool trains_all = state_.gradient > 0;
  const double work = ranks_flops_ * tokens_ / ranks / peak_ * (trains_all ? 1 : 1.0 / 3);
  const double rows = static_cast<double>(c.micro_batch * base_.batch.sequence) / static_cast<double>(c.cp);
  const double ramp =
      static_cast<double>(c.pp - 1) / 2 * layer_flops_ * rows / static_cast<double>(c.tp) / peak_;
  return work + (trains_all && base_.model.moe.experts == 0 ? ramp : 0);
}

double LayoutBounds::likely_seconds(const LayoutChoice& c) const {
  namespace pipeline = parallel::pipeline;
  const auto ranks = static_cast<double>(c.pp * c.tp * c.cp * c.dp());
  const double micro_batches =
      static_cast<double>(base_.batch.global_batch) / static_cast<double>(c.dp() * c.micro_batch);
  const double fewer_rows =
      1 + 500 / (static_cast<double>(c.micro_batch * base_.batch.sequence) / static_cast<double>(c.cp));
  const double recompute = c.recompute == 0 ? 1 : c.recompute == 1 ? 1.02 : 1.33;
  double seconds = 2 * ranks_flops_ * tokens_ / ranks / peak_ * recompute * fewer_rows;
  if (c.pp > 1) {
    const pipeline::ScheduleRow& row = pipeline::kSchedules[static_cast<size_t>(c.schedule)];
    const double filled =
        row.splits_backward ? 3.0 * static_cast<double>(c.chunks) : static_cast<double>(c.chunks);
    seconds *= 1 + static_cast<double>(c.pp - 1) / (filled * micro_batches);
    seconds *= row.splits_backward ? 1.05 : 1;
  }
  const auto bandwidth = [&](int64_t members) {
    for (const cluster::NetworkLevel& level : cluster_.levels)
      if (level.ranks == 0 || members <= level.ranks) return level.bytes_per_second;
    return cluster_.levels.back().bytes_per_second;
  };
  const double own_tokens = tokens_ / static_cast<double>(c.dp() * c.cp);
  const double width = static_cast<double>(base_.model.width),
               layers = static_cast<double>(base_.model.layers);
  const double residual = own_tokens * width * 4 * layers / static_cast<double>(c.pp);
  const auto others = [](int64_t n) { return 1 - 1 / static_cast<double>(n); };
  seconds += 4 * residual * others(c.tp) / bandwidth(c.tp);
  seconds += residual * others(c.cp) / bandwidth(c.tp * c.cp);
  seconds += 2 * residual * others(c.ep) / bandwidth(c.ep * c.tp);
  const double gradients = 8 * parameters_ / static_cast<double>(c.pp * c.tp * c.ep);
  const double times = c.zero_stage == 3 ? 1 + micro_batches / 2 : 1;
  const int64_t over = c.dp() * c.cp * c.tp;
  return seconds + 0.3 * gradients * times * others(c.dp() * c.cp) / bandwidth(over);
}

}  // namespace hawser::train
