#include "engine/train/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/train/staging.h"

namespace hawser::train {
namespace {

/// Plans take time with the square of their length: at this many blocks of all micro-batches, seconds.
constexpr int64_t kMostPlannedBlocks = 4000;

bool is_deep(const config::ResolvedConfig& config) {
  return config.model.layers > kMostPlannedBlocks / config.batch.grad_accum_steps;
}

std::string gib(int64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30)); }

class Advice {
 public:
  /// `bytes`: of the arena, or at least of it where the model is deep.
  Advice(const nn::Model& model, const config::ResolvedConfig& config, const Target& target, bool inference,
         int64_t bytes)
      : model_(model), config_(config), target_(target), inference_(inference), bytes_(bytes) {}

  /// A line for each setting that would save something.
  std::string text();

 private:
  int64_t arena(const config::ResolvedConfig& config) const {
    return is_deep(config_) ? least_arena_bytes(model_, config, target_, inference_)
                            : make_plans(model_, config, target_, inference_).device_bytes();
  }
  void suggest(const std::string& setting, const config::ResolvedConfig& smaller) {
    const int64_t saved = bytes_ - arena(smaller);
    if (saved > 0) text_ += fmt::format("\n  {} saves {}", setting, gib(saved));
  }

  const nn::Model& model_;
  const config::ResolvedConfig& config_;
  const Target& target_;
  const bool inference_;
  const int64_t bytes_;
  std::string text_;
};

std::string Advice::text() {
  if (config_.batch.micro_batch > 1) {
    config::ResolvedConfig c = config_;
    c.batch.micro_batch = std::max<int64_t>(1, config_.batch.micro_batch / 2);
    c.batch.grad_accum_steps = config_.batch.global_batch / c.batch.micro_batch;
    suggest(fmt::format("/batch/micro_batch {} with /batch/grad_accum_steps {}", c.batch.micro_batch,
                        c.batch.grad_accum_steps),
            c);
  }
  if (config_.batch.sequence > 1) {
    config::ResolvedConfig c = config_;
    c.batch.sequence /= 2;
    suggest(fmt::format("/batch/sequence {}", c.batch.sequence), c);
  }
  if (config_.optimizer.kind == config::OptimizerKind::kAdamW && !inference_) {
    config::ResolvedConfig c = config_;
    c.optimizer.kind = config::OptimizerKind::kSgd;
    c.optimizer.momentum = 0;
    suggest("/optimizer/kind sgd without momentum", c);
  }
  const bool may_round = config_.zero.sum_order == parallel::SumOrder::kRanks;
  if (config_.precision != config::Precision::kBf16Pure && may_round && !inference_) {
    config::ResolvedConfig c = config_;
    c.precision = config::Precision::kBf16Pure;
    if (c.mesh.dp() > 1) c.zero.gradient_type = DType::kBf16;
    suggest("/precision bf16_pure (`hawser plan` says what it costs in exactness)", c);
  }
  return std::move(text_);
}

[[noreturn]] void fail_for_arena(const char* needs, int64_t bytes, const config::ResolvedConfig& config,
                                 int64_t available, const std::string& advice) {
  fail(Code::kOutOfMemory, "out of memory: the plan needs {}{} ({} bytes){}, {} are available{}", needs,
       gib(bytes), bytes, config.mesh.dp() > 1 ? " on each rank" : "", gib(available), advice);
}

/// Beside an arena that fits.
void check_host(const EnginePlans& plans, const nn::Model& model, const config::ResolvedConfig& config,
                const Target& target, int64_t available) {
  const parallel::ShardLayout layout(model.table(), layout_options(config, plans.strategy, 0, false));
  const int64_t needed = host_bytes(plans.staging, staging_bytes(layout, model.table()), config, target);
  if (target.in_place) available -= plans.arena_bytes;
  if (needed <= available) return;
  fail(Code::kOutOfMemory,
       "out of memory: beside the {} of the plan, a rank needs {} ({} bytes) of the host: {} for a copy of "
       "its "
       "state, from which checkpoints are written, {} to exchange with its device; {} are available{}",
       gib(plans.arena_bytes), gib(needed), needed, gib(needed - plans.staging.bytes()),
       gib(plans.staging.bytes()), gib(std::max<int64_t>(0, available)),
       target.in_place ? "; leave /checkpoint/async out, and no copy is made" : "");
}

}  // namespace

int64_t host_bytes(const HostStaging& staging, int64_t staged_bytes, const config::ResolvedConfig& config,
                   const Target& target) {
  const config::CheckpointConfig& c = config.checkpoint;
  const bool copies = !c.path.empty() && (c.async || !target.in_place);
  return staging.bytes() + (copies ? staged_bytes : 0);
}

EnginePlans make_plans_that_fit(const nn::Model& model, const config::ResolvedConfig& config,
                                const Target& target, const Room& room, bool inference) {
  const bool deep = is_deep(config);
  const int64_t least = deep ? least_arena_bytes(model, config, target, inference) : 0;
  if (least > room.device)
    fail_for_arena("at least ", least, config, room.device,
                   Advice(model, config, target, inference, least).text());
  EnginePlans plans = make_plans(model, config, target, inference);
  const int64_t arena = plans.device_bytes();
  if (arena > room.device)
    fail_for_arena("", arena, config, room.device,
                   Advice(model, config, target, inference, deep ? least : arena).text());
  if (!inference) check_host(plans, model, config, target, room.host);
  return plans;
}

}  // namespace hawser::train
