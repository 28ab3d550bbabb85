// PlannedRank: one rank's plans of a small model under any strategy of data parallelism, made as the engine
// makes them, and the serial plans from which they are made.
#pragma once

#include <string>
#include <vector>

#include "engine/config/model_fields.h"
#include "engine/nn/parameter.h"
#include "engine/parallel/data_parallel.h"

#include "engine/parallel/shard_layout.h"
#include "engine/parallel/zero.h"
#include "engine/plan/serial.h"
#include "tests/harness/kept_moments.h"
#include "tests/plan/plan_text.h"

namespace hawser::testing {

/// Returns a GPT of odd sizes, so that padding matters.
inline nn::ModelConfig odd_model(int64_t layers, bool tied) {
  nn::ModelConfig m = config::default_model();
  m.vocab_size = 37, m.context = 9, m.layers = layers;
  m.width = 12, m.heads = m.kv_heads = 3, m.head_dim = 4, m.mlp_width = 21;
  m.window.assign(static_cast<size_t>(layers), 0);
  m.attention_scale = 0.5;
  m.tied_head = tied;
  return m;
}

struct Setting {
  parallel::DataParallelStrategy strategy;
  int32_t micro_batches = 1;
  int64_t layers = 2;
  bool tied = false;
  DType compute = DType::kF32;
  std::vector<std::string> frozen;
  int64_t moments = 2;

  std::string text() const {
    const parallel::DataParallelStrategy& s = strategy;
    std::string t = "stage " + std::to_string(s.stage) + ", " + std::to_string(s.shards) + "x" +
                    std::to_string(s.replicas) + " ranks, " + std::to_string(micro_batches) +
                    (s.per_micro_batch ? " micro-batches each" : " micro-batches") + ", prefetch " +
                    std::to_string(s.prefetch) + ", buckets of " + std::to_string(s.bucket_bytes) +
                    (s.reshard == parallel::ReshardAfterForward::kKeep ? ", keep" : "") +
                    (s.reshard == parallel::ReshardAfterForward::kGroup ? ", group" : "");
    for (const std::string& pattern : frozen) t += ", frozen " + pattern;
    return t + (tied ? ", tied" : "") + (compute == DType::kBf16 ? ", bf16" : "");
  }
};

class PlannedRank {
 public:
  explicit PlannedRank(const Setting& s, int64_t index = 0)
      : setting_(s), table_(odd_model(s.layers, s.tied), true, s.frozen), layout_(table_, options(s, index)) {
    const bool head = s.tied && table_.at("embedding.tokens.weight").trainable;
    sizes_ = small_sizes(s.layers, s.tied);
    sizes_.lookup_gradient = head ? 37 * 12 * 4 : 0;
    sizes_.state.clear();
    sizes_.first_trainable = static_cast<int32_t>(s.layers) + 1;
    for (int32_t b = layout_.blocks() - 1; b >= 0; --b)
      if (layout_.block_state(b).gradient_bucket > 0) sizes_.first_trainable = b;
    for (int32_t b = 0; b < layout_.blocks(); ++b) sizes_.state.push_back(layout_.block_state(b));
  }
  // Not copyable, because layouts keep references (passes and plans do not).
  PlannedRank(const PlannedRank&) = delete;
  PlannedRank& operator=(const PlannedRank&) = delete;

  const nn::ParameterTable& table() const { return table_; }
  const parallel::ShardLayout& layout() const { return layout_; }

  plan::Plan serial_train() const {
    return plan::train_plan(sizes_, setting_.micro_batches,
                            setting_.strategy.reduces_each(setting_.micro_batches)
                                ? plan::Accumulation::kFresh
                                : plan::Accumulation::kInPlace);
  }
  /// Returns the train, eval, logits and generate plans of serial code, unfinished.
  std::vector<plan::Plan> serial() const {
    return {serial_train(), plan::eval_plan(sizes_), plan::logits_plan(sizes_), plan::generate_plan(sizes_)};
  }
  plan::Plan train() const { return with_passes(serial_train()); }
  std::vector<plan::Plan> all() const {
    std::vector<plan::Plan> plans;
    for (plan::Plan& plan : serial()) plans.push_back(with_passes(std::move(plan)));
    return plans;
  }

 private:
  static parallel::ShardLayout::Options options(const Setting& s, int64_t index) {
    parallel::ShardLayout::Options o;
    o.compute = s.compute;
    o.stage = s.strategy.stage;
    mesh::Degrees degrees;
    degrees.dp_replicate = s.strategy.replicas, degrees.dp_shard = s.strategy.shards;
    o.mesh = mesh::DeviceMesh(degrees), o.rank = index;
    if (s.strategy.reshard == parallel::ReshardAfterForward::kGroup)
      o.reshard_group = s.strategy.reshard_group;
    o.states = kept_moments(s.moments);
    o.gradient_buckets = s.strategy.gradient_buckets(s.micro_batches, false);
    o.own_gradient_shards = o.gradient_buckets || s.strategy.reduces_each(s.micro_batches);
    return o;
  }
  plan::Plan with_passes(plan::Plan plan) const {
    if (plan.name == "train") {
      parallel::reduce_gradients(&plan, layout_, setting_.strategy, setting_.micro_batches);
      parallel::gather_updated_weights(&plan, layout_, setting_.strategy);
    }
    parallel::gather_weights_for_use(&plan, layout_, setting_.strategy);
    return finished(std::move(plan));
  }

  Setting setting_;
  nn::ParameterTable table_;
  parallel::ShardLayout layout_;
  plan::Sizes sizes_;
};

/// Returns every strategy on 1 to 4 ranks with 1 to 3 micro-batches, tied and not, with and without frozen
/// blocks.
inline std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  const auto add = [&](Setting s) {
    for (const bool tied : {false, true}) {
      for (const bool frozen : {false, true}) {
        s.tied = tied;
        s.frozen = frozen ? std::vector<std::string>{"embedding.*", "blocks.0.*", "blocks.1.*norm.*"}
                          : std::vector<std::string>{};
        settings.push_back(s);
      }
    }
  };
  struct Ranks {
    int64_t stage, shards, replicas;
  };
  for (const Ranks& r : {Ranks{0, 1, 1},
                         {3, 1, 1},
                         {0, 3, 1},
                         {1, 2, 1},
                         {1, 2, 2},
                         {2, 4, 1},
                         {2, 2, 3},
                         {3, 4, 1},
                         {3, 2, 2}}) {
    for (const int32_t micro_batches : {1, 2, 3}) {
      for (const bool each : {false, true}) {
        for (const int64_t bucket : {int64_t{1}, int64_t{3000}, int64_t{1} << 20}) {
          if (r.stage == 3 && bucket > 1) continue;
          Setting s;
          s.strategy.stage = r.stage;
          s.strategy.shards = r.shards, s.strategy.replicas = r.replicas;
          s.strategy.per_micro_batch = each;
          s.strategy.bucket_bytes = bucket, s.strategy.first_bucket_bytes = std::min<int64_t>(bucket, 2000);
          s.micro_batches = micro_batches;
          add(s);
        }
      }
    }
  }
  return settings;
}

}  // namespace hawser::testing
