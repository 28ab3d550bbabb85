#include "engine/report/layout_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/error.h"
#include "engine/config/tree.h"
#include "engine/parallel/pipeline/schedule.h"

namespace hawser::train {
namespace {

namespace pipeline = parallel::pipeline;

/// The largest number of chunks of a stage and of rows of a micro-batch that the search tries.
constexpr int64_t kMostChunks = 16, kMostRows = 16;

config::Setting policy(const LayoutChoice& c) {
  return {"/recompute/policy", fmt::format("\"{}\"", kRecomputePolicies[static_cast<size_t>(c.recompute)])};
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= n / d; ++d)
    if (n % d == 0) {
      all.push_back(d);
      if (d != n / d) all.push_back(n / d);
    }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

LayoutSpace::LayoutSpace(config::ConfigTree tree, const config::ResolvedConfig& base, int64_t ranks)
    : tree_(std::move(tree)),
      effective_(tree_.impl().root),
      base_(base),
      ranks_(ranks),
      sets_micro_batch_(is_set("/batch/micro_batch")),
      sets_recompute_(is_set("/recompute/policy")) {
  const mesh::MeshConfig& m = base.mesh;
  for (const int64_t pp : degrees("/mesh/pp", m.pp, ranks))
    for (const int64_t tp : degrees("/mesh/tp", m.tp, ranks))
      for (const int64_t cp : degrees("/mesh/cp", m.cp, ranks)) {
        if (ranks % pp != 0 || ranks / pp % tp != 0 || ranks / pp / tp % cp != 0) continue;
        LayoutChoice c;
        c.pp = pp, c.tp = tp, c.cp = cp;
        if (pp <= base.model.layers) add_meshes(c, ranks / pp / tp / cp);
      }
  if (data_ranks_.empty()) fail_no_mesh();
  if (choices_.empty()) fail_no_batch();
  std::sort(choices_.begin(), choices_.end());
}

bool LayoutSpace::is_set(const char* pointer) const {
  return effective_.is_given(pointer) && effective_.origin(pointer) >= config::Origin::kImported &&
         effective_.origin(pointer) != config::Origin::kRule;
}

std::vector<int64_t> LayoutSpace::degrees(const char* pointer, int64_t set, int64_t n) const {
  return is_set(pointer) ? std::vector<int64_t>{set} : divisors(n);
}

/// Divides the data-parallel ranks into replicas and shards, and the experts among ranks of a stage.
void LayoutSpace::add_meshes(LayoutChoice c, int64_t data_ranks) {
  const int64_t experts = base_.model.moe.experts;
  for (const int64_t shards : degrees("/mesh/dp_shard", base_.mesh.dp_shard, data_ranks)) {
    if (data_ranks % shards != 0) continue;
    c.dp_shard = shards, c.dp_replicate = data_ranks / shards;
    if (is_set("/mesh/dp_replicate") && c.dp_replicate != base_.mesh.dp_replicate) continue;
    data_ranks_.push_back(data_ranks);
    if (base_.batch.global_batch % data_ranks != 0) continue;
    for (const int64_t ep :
         experts > 0 ? degrees("/mesh/ep", base_.mesh.ep, experts) : std::vector<int64_t>{1})
      for (const int64_t stage : is_set("/zero/stage") ? std::vector<int64_t>{base_.zero.stage}
                                                       : std::vector<int64_t>{0, 1, 2, 3}) {
        const bool shards_by_choice = shards > 1 && !is_set("/mesh/dp_shard");
        if ((stage == 0 && shards_by_choice) || (stage > 0 && c.dp_shard * c.cp == 1)) continue;
        c.ep = ep, c.zero_stage = stage;
        add_schedules(c);
      }
  }
}

void LayoutSpace::add_schedules(const LayoutChoice& of) {
  LayoutChoice c = of;
  if (c.pp == 1) return add_batches(c);
  for (const pipeline::ScheduleRow& row : pipeline::kSchedules) {
    if (is_set("/pipeline/schedule") && row.schedule != base_.pipeline.schedule) continue;
    c.schedule = static_cast<int64_t>(row.schedule);
    c.chunks = row.chunks == pipeline::RankChunks::kV ? 2 : 1;
    if (row.chunks != pipeline::RankChunks::kConfigured) {
      if (c.pp * c.chunks <= base_.model.layers) add_batches(c);
    } else if (is_set("/pipeline/chunks")) {
      c.chunks = base_.pipeline.chunks;
      add_batches(c);
    } else {
      for (c.chunks = 2; c.chunks <= std::min(kMostChunks, base_.model.layers / c.pp); ++c.chunks)
        add_batches(c);
    }
  }
}

void LayoutSpace::add_batches(const LayoutChoice& of) {
  LayoutChoice c = of;
  const int64_t rows = base_.batch.global_batch / c.dp();
  for (c.micro_batch = 1; c.micro_batch <= std::min(rows, kMostRows); ++c.micro_batch) {
    if (sets_micro_batch_) c.micro_batch = base_.batch.micro_batch;
    if (rows % c.micro_batch == 0) {
      if (sets_recompute_) {
        const auto* const policy = std::find(std::begin(kRecomputePolicies), std::end(kRecomputePolicies),
                                             effective_.text("/recompute/policy"));
        c.recompute = policy == std::end(kRecomputePolicies) ? 0 : policy - kRecomputePolicies;
        add(c);
      } else {
        for (c.recompute = 0; c.recompute < std::ssize(kRecomputePolicies); ++c.recompute) add(c);
        c.recompute = 0;
      }
    }
    if (sets_micro_batch_) return;
  }
}

void LayoutSpace::add(LayoutChoice c) {
  for (const bool used : {c.pp > 1, c.tp > 1, c.cp > 1, c.ep > 1, c.zero_stage > 0, c.recompute > 0,
                          c.dp_shard > 1 && c.dp_replicate > 1})
    c.kinds += used ? 1 : 0;
  choices_.push_back(c);
}

std::vector<config::Setting> LayoutSpace::settings(const LayoutChoice& c) const {
  std::vector<config::Setting> all;
  const auto degree = [&](const char* pointer, int64_t value) {
    if (value != 1 && !is_set(pointer)) all.push_back({pointer, std::to_string(value)});
  };
  degree("/mesh/pp", c.pp), degree("/mesh/dp_replicate", c.dp_replicate),
      degree("/mesh/dp_shard", c.dp_shard);
  degree("/mesh/cp", c.cp), degree("/mesh/tp", c.tp), degree("/mesh/ep", c.ep);
  if (c.zero_stage > 0 && !is_set("/zero/stage"))
    all.push_back({"/zero/stage", std::to_string(c.zero_stage)});
  if (c.pp > 1) {
    const pipeline::ScheduleRow& row = pipeline::kSchedules[static_cast<size_t>(c.schedule)];
    if (!is_set("/pipeline/schedule")) all.push_back({"/pipeline/schedule", fmt::format("\"{}\"", row.name)});
    if (row.chunks == pipeline::RankChunks::kConfigured) degree("/pipeline/chunks", c.chunks);
  }
  all.push_back({"/batch/global_batch", std::to_string(base_.batch.global_batch)});
  if (!is_set("/batch/micro_batch")) all.push_back({"/batch/micro_batch", std::to_string(c.micro_batch)});
  if (c.recompute > 0 && !is_set("/recompute/policy")) all.push_back(policy(c));
  for (const config::Setting& detail : c.details) {
    std::erase_if(all, [&](const config::Setting& s) { return s.pointer == detail.pointer; });
    all.push_back(detail);
  }
  return all;
}

std::optional<config::ResolvedConfig> LayoutSpace::resolve(const LayoutChoice& choice) const {
  std::optional<config::ResolvedConfig> made = config::resolve_with(tree_, settings(choice));
  if (made) made->model.adapter = base_.model.adapter;  // files know more of it than the tree
  if (made && made->batch.global_batch != base_.batch.global_batch) return std::nullopt;
  if (made && made->mesh.world() != ranks_) return std::nullopt;
  return made;
}

std::optional<config::ResolvedConfig> LayoutSpace::resolve_small(const LayoutChoice& choice, bool splits,
                                                                 int64_t layers) const {
  const int64_t pp = std::min<int64_t>(choice.pp, 2), dp = choice.dp_of_experts();
  const std::pair<const char*, int64_t> numbers[] = {{"/model/layers", layers},
                                                     {"/mesh/pp", pp},
                                                     {"/mesh/dp_replicate", 1},
                                                     {"/mesh/dp_shard", dp},
                                                     {"/mesh/cp", choice.cp},
                                                     {"/mesh/tp", choice.tp},
                                                     {"/mesh/ep", choice.ep},
                                                     {"/zero/stage", 0},
                                                     {"/batch/global_batch", 2 * choice.micro_batch * dp},
                                                     {"/batch/micro_batch", choice.micro_batch}};
  std::vector<config::Setting> all;
  for (const auto& [pointer, value] : numbers) all.push_back({pointer, std::to_string(value)});
  if (is_set("/batch/ramp")) all.push_back({"/batch/ramp", "[]"});
  if (pp > 1) all.push_back({"/pipeline/schedule", splits ? "\"zb_h1\"" : "\"1f1b\""});
  if (choice.recompute > 0 && !is_set("/recompute/policy")) all.push_back(policy(choice));
  std::optional<config::ResolvedConfig> made = config::resolve_with(tree_, all);
  if (made && made->batch.grad_accum_steps != 2) return std::nullopt;
  if (made) made->model.adapter = base_.model.adapter;  // files know more of it than the tree
  return made;
}

void LayoutSpace::fail_no_mesh() const {
  int64_t fixed = 1;
  const mesh::MeshConfig& m = base_.mesh;
  const auto count = [&](const char* pointer, int64_t degree) { fixed *= is_set(pointer) ? degree : 1; };
  count("/mesh/pp", m.pp), count("/mesh/dp_replicate", m.dp_replicate), count("/mesh/dp_shard", m.dp_shard);
  count("/mesh/cp", m.cp), count("/mesh/tp", m.tp);
  const int64_t below = ranks_ / fixed * fixed;
  fail(Code::kConfigInvalid,
       "no mesh has {} ranks: the degrees that /mesh sets multiply to {}; use {} ranks, or leave one of them "
       "out",
       ranks_, fixed, below > 0 ? fmt::format("{} or {}", below, below + fixed) : fmt::format("{}", fixed));
}

void LayoutSpace::fail_no_batch() const {
  const int64_t rows = base_.batch.global_batch;
  const int64_t unit = *std::min_element(data_ranks_.begin(), data_ranks_.end()) *
                       (is_set("/batch/micro_batch") ? base_.batch.micro_batch : 1);
  const int64_t below = rows / unit * unit;
  fail(Code::kConfigInvalid,
       "/batch/global_batch {}: no layout of {} ranks divides it; the nearest values that work: {}", rows,
       ranks_, below > 0 ? fmt::format("{} or {}", below, below + unit) : fmt::format("{}", unit));
}

}  // namespace hawser::train
