#include "engine/assembly/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/parallel/offload.h"

namespace hawser::train {
namespace {

/// A setting that saves less than 1 / kLeastShare of all bytes is not suggested.
constexpr int64_t kLeastShare = 100;

std::string gib(int64_t bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30)); }

/// Tries settings on the config as the user wrote it, so that a suggestion can be copied as it is.
class Advice {
 public:
  /// `bytes` is what the device needs with the present config.
  Advice(const nn::Model& model, const Assembly& assembly, const Target& target, bool inference,
         int64_t bytes)
      : model_(model),
        tree_(assembly.tree),
        config_(assembly.config),
        target_(target),
        inference_(inference),
        bytes_(bytes) {}

  /// Returns one line for each setting that saves enough to be worth changing.
  std::string text();

 private:
  struct Setting {
    const char* pointer;
    std::string value;
  };

  bool suggest(const std::vector<Setting>& settings, const char* remark = "");
  void suggest_smaller_micro_batch();

  const nn::Model& model_;
  const config::ConfigTree& tree_;
  const config::ResolvedConfig& config_;
  const Target& target_;
  const bool inference_;
  const int64_t bytes_;
  std::string text_;
};

/// Returns false if the rest of the config does not allow the settings, or if steps would have other rows.
bool Advice::suggest(const std::vector<Setting>& settings, const char* remark) {
  std::string words;
  config::ConfigTree tree = tree_;
  config::ResolvedConfig changed;
  try {
    for (const Setting& s : settings) {
      tree.set(s.pointer, s.value);
      words += fmt::format("{}{} {}", words.empty() ? "" : " with ", s.pointer, s.value);
    }
    changed = config::resolve(tree);
  } catch (const Error& error) {
    if (error.code() != Code::kConfigInvalid) throw;
    return false;
  }
  if (changed.batch.global_batch != config_.batch.global_batch) return false;
  // Another optimizer also changes which parameters are in one group.
  const nn::Model model = model_of(changed, model_.table().tile_rows());
  const int64_t saved = bytes_ - make_plans(model, changed, target_, inference_).device_bytes();
  if (saved >= bytes_ / kLeastShare)
    text_ += fmt::format("\n  {}{} saves {}", words, remark, plan::bytes_text(saved));
  return true;
}

/// Suggests the next smaller micro-batch that divides a rank's rows, with more accumulation steps.
void Advice::suggest_smaller_micro_batch() {
  const int64_t rows = config_.batch.micro_batch * config_.batch.grad_accum_steps;
  for (int64_t micro = config_.batch.micro_batch / 2; micro >= 1; --micro)
    if (rows % micro == 0 && suggest({{"/batch/micro_batch", fmt::format("{}", micro)},
                                      {"/batch/grad_accum_steps", fmt::format("{}", rows / micro)}}))
      return;
}

std::string Advice::text() {
  suggest_smaller_micro_batch();
  if (config_.batch.sequence > 1)
    suggest({{"/batch/sequence", fmt::format("{}", config_.batch.sequence / 2)}});
  if (!inference_) {
    if (!config_.recompute.remakes.rest)
      suggest({{"/recompute/policy", "\"full\""}}, " (every block computes its forward twice)");
    if (config_.mesh.can_shard() && config_.zero.stage < 3) suggest({{"/zero/stage", "3"}});
    if (target_.in_place)
      suggest({{"/offload/optimizer", "\"disk\""}, {"/offload/folder", "\".\""}},
              " (name a folder on a fast local disk)");
    else
      suggest({{"/offload/optimizer", "\"host\""}});
    if (config_.optimizer.kind != config::OptimizerKind::kSgd)
      suggest({{"/optimizer/kind", "sgd"}}, " without momentum");
    if (config_.precision != config::Precision::kBf16Pure)
      suggest({{"/precision", "bf16_pure"}}, " (`hawser plan` shows the cost in accuracy)");
  }
  return std::move(text_);
}

/// Throws kOutOfMemory if the host lacks memory for what a rank needs outside its arena.
void check_host(const EnginePlans& plans, int64_t stage, const nn::Model& model,
                const config::ResolvedConfig& config, const Target& target, int64_t available) {
  const parallel::Strategies strategies = strategies_of(config);
  const int64_t rank = strategies.first_of_stage(stage);
  const parallel::ShardLayout layout(model.table(),
                                     layout_options(config, strategies, plans.strategy, rank, false));
  const int64_t needed = host_bytes(
      plans.pinned, save_copy_bytes(layout, model.table(), config, config.checkpoint.reserves_async()),
      config, target);
  if (target.in_place) available -= plans.arena_bytes;
  if (needed <= available) return;
  const int64_t copy = needed - plans.pinned.bytes() - target.transport_bytes;
  fail(Code::kOutOfMemory,
       "out of memory: in addition to the {} of the plan, a rank needs {} ({} bytes) of host memory: {} for "
       "a copy of its state for checkpoints, {} for transfers to its device, {} for transfers to other "
       "processes{}; {} are available{}",
       gib(plans.arena_bytes), gib(needed), needed, gib(copy),
       gib(plans.pinned.bytes() - plans.pinned.offload), gib(target.transport_bytes),
       plans.pinned.offload > 0
           ? fmt::format(", {} for what leaves the device (/offload)", gib(plans.pinned.offload))
           : "",
       gib(std::max<int64_t>(0, available)),
       target.in_place && copy > 0 ? "; without /checkpoint/async, no copy is made" : "");
}

}  // namespace

int64_t save_copy_bytes(const parallel::ShardLayout& layout, const nn::ParameterTable& table,
                        const config::ResolvedConfig& config, bool beside_steps) {
  const parallel::ShardLayout::Options& options = layout.options();
  const bool snapshots = config.checkpoint.reserves_async();
  const int64_t states = parallel::copied_by_saves(config.offload.optimizer, beside_steps, snapshots);
  const int64_t weights = parallel::copied_by_saves(config.offload.parameters, beside_steps, snapshots);
  int64_t bytes = 0;
  for (size_t i = 0; i < table.all().size(); ++i) {
    const nn::Parameter& p = table.all()[i];
    const parallel::GroupLayout& group = layout.group(p.group);
    const int64_t elements = layout.elements_to_write(i);
    bytes += (group.has_master ? states : weights) * dtype_bytes(options.state, elements);
    for (const parallel::GroupLayout::KeptState& kept : group.states)
      bytes += states * kept.saved_bytes(elements);
  }
  return bytes;
}

int64_t host_bytes(const PinnedBytes& pinned, int64_t staged_bytes, const config::ResolvedConfig& config,
                   const Target& target) {
  const config::CheckpointConfig& c = config.checkpoint;
  const bool copies = !c.path.empty() && (c.async || !target.in_place);
  return pinned.bytes() + target.transport_bytes + (copies ? staged_bytes : 0);
}

std::vector<EnginePlans> make_plans_that_fit(const nn::Model& model, const Assembly& assembly,
                                             const Target& target, const Room& room, bool inference) {
  const config::ResolvedConfig& config = assembly.config;
  std::vector<EnginePlans> stages = make_stage_plans(model, config, target, inference);
  int64_t needed = 0;
  for (const EnginePlans& plans : stages) needed = std::max(needed, plans.device_bytes());
  if (needed > room.device)
    fail(Code::kOutOfMemory, "out of memory: the plan needs {} ({} bytes){}, {} are available{}", gib(needed),
         needed, config.mesh.world() > 1 ? " on each rank" : "", gib(room.device),
         Advice(model, assembly, target, inference, needed).text());
  for (size_t s = 0; s < stages.size() && !inference; ++s)
    check_host(stages[s], static_cast<int64_t>(s), model, config, target, room.host);
  return stages;
}

}  // namespace hawser::train
