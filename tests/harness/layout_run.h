// LayoutRun: runs some steps on one layout of ranks and deliberately awkward data. It records everything by
// which two layouts can be compared: loss, gradient norm, every raw gradient, and every weight and moment
// after each step.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/plan/state_table.h"
#include "engine/run/trainer.h"

namespace hawser::testing {

/// How ranks divide a run. The global batch is micro_batch * accumulation * dp rows.
struct Layout {
  int64_t dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1, pp = 1, ep = 1, stage = 0;
  int64_t accumulation = 1;
  std::string reduce = "per_step", reshard = "full";
  int64_t reshard_group = 0, prefetch = 1, sum_group = 0;
  int64_t bucket_bytes = 0;       ///< 0: the default
  bool sequence_parallel = true;  ///< if tp > 1
  int64_t tp_chunks = 1;          ///< if tp > 1
  std::string cp_mode = "ring";   ///< if cp > 1
  double rows_factor = 0;         ///< if ep > 1; 0: the default
  bool tree = false;
  std::string gradient_type = "fp32", quantized_gradients = "off", quantized_weights = "off";
  std::string schedule = "1f1b";          ///< if pp > 1
  int64_t chunks = 1;                     ///< chunks of each rank, interleaved
  std::vector<int64_t> layers_of_chunks;  ///< empty: balanced
  std::string recompute;                  ///< the section recompute, as JSON; empty: none
  std::string offload;                    ///< the section offload, as JSON; empty: none

  int64_t dp() const { return dp_replicate * dp_shard; }
  int64_t world() const { return pp * dp() * cp * tp; }
  std::string name() const;
  /// The sections mesh, zero, comm of a config.
  std::string sections() const;
};

/// The model and the data of a run: a vocabulary of 53 (which nothing divides), rows with unequal and no
/// targets, dropout.
struct Problem {
  std::string device = "cpu";
  std::string device_transport = "auto";
  std::string algorithm_cache;
  bool deterministic = true;
  std::string precision = "fp32";
  /// The initial loss scale of precision fp16. Batches have few targets, so gradients are large.
  double loss_scale = 64;
  std::string fp8;  ///< the section fp8 of precision fp8, as JSON; empty: its defaults
  std::string optimizer = "adamw";
  bool muon_heads = false;  ///< /optimizer/muon_heads
  bool tied = true;
  int64_t layers = 2;
  int64_t width = 24, heads = 4, kv_heads = 2, mlp_width = 40;
  int64_t head_dim = 10;  ///< unless like_gpt2
  int64_t rope_dim = 0;   ///< /model/rope/dim, unless like_gpt2; 0: the whole head
  /// true: layer norms, biases, learned positions and GELU; false: norms of queries and keys, post-norms, a
  /// window, soft caps, rotary positions and a gated MLP.
  bool like_gpt2 = true;
  /// The section model.moe, as JSON; empty: dense. With experts, MLPs have no biases.
  std::string experts;
  bool expert_biases = false;  ///< biases of experts and routers
  std::string moe;             ///< the section moe, as JSON; empty: its defaults
  /// The section model.latent, as JSON; requires like_gpt2 false.
  std::string latent;
  std::string from;           ///< init.from; empty: random weights
  bool init_average = false;  ///< init.average
  std::string adapter;        ///< the section adapter, as JSON; empty: none
  std::string
      objective;  ///< the section objective, as JSON, over pairs; empty: cross_entropy. Rows then have no
                  ///< weights
  std::string teacher;  ///< the section teacher, as JSON; empty: none. Its rows are random
  bool frozen = false;
  std::vector<std::string> frozen_also;  ///< patterns
  std::string rules;                     ///< /optimizer/rules, as JSON; empty: none
  double average = -1;                   ///< /optimizer/average; below 0: none
  double qk_clip = 0;                    ///< /optimizer/qk_clip; 0: none
  bool sinks = false;                    ///< /model/sinks, without the soft cap of scores
  int64_t ahead = 0;                     ///< /model/ahead
  double ahead_weight = 0.3;             ///< /train/ahead_weight, if ahead > 0
  bool plain_scores = false;     ///< unless like_gpt2: neither norms of queries and keys nor soft caps
  bool graphs = true;            ///< /cuda/graphs
  std::string residual = "f32";  ///< /cuda/residual
  double dropout = 0.1;
  int64_t weights_every = 3;  ///< the last of this many batches has weights; 0: none
  bool documents = false;     ///< rows of several documents
  int64_t micro_batch = 2, sequence = 12;
  uint64_t seed = 1;

  bool scores() const { return objective.find("reward") != objective.npos; }
};

struct StepRecord {
  double loss = 0, grad_norm = 0;
  double norm_of_gradients = -1;  ///< norm computed from `gradients`; -1: not computed
  int64_t tokens = 0;
  /// Router statistics, the rewards of pairs and the losses of prediction depths, as in the metrics.
  std::string loads;
  std::map<std::string, std::vector<float>> gradients, weights;
  std::array<std::map<std::string, std::vector<float>>, plan::kStateCount> states;  ///< as plan::kStates
};

std::string layout_config(const Problem& problem, const Layout& layout);

/// A trainer over ranks as threads of this process, or over the ranks of `comm`. Slots of the arena start as
/// NaN, so every byte that a step reads must have been written in this step.
class LayoutRun {
 public:
  /// `base`: the trainer whose weights it borrows.
  LayoutRun(const Problem& problem, const Layout& layout, std::shared_ptr<comm::Comm> comm = nullptr,
            const train::Trainer* base = nullptr);
  /// Takes one step on global batch number `step` and records everything that could differ.
  StepRecord step();
  /// The next step takes global batch number `step`.
  void skip_to(int64_t step) { steps_ = step; }
  train::Trainer& trainer() { return *trainer_; }

 private:
  Problem problem_;
  Layout layout_;
  std::atomic<bool> cancel_{false};
  std::unique_ptr<train::Trainer> trainer_;
  int64_t steps_ = 0;
};

std::vector<StepRecord> run_layout(const Problem& problem, const Layout& layout, int steps,
                                   std::shared_ptr<comm::Comm> comm = nullptr);

/// Returns one line per step, which differs if any bit differs, to compare runs of several processes.
std::string summary_of(const std::vector<StepRecord>& records);

/// Returns "" if both runs have the same bits and their norms are those of their gradients; otherwise
/// describes the first difference.
std::string first_difference(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b);

/// Rows of global batch `step`: tokens and targets. Some targets are masked, sometimes a whole row, and in
/// batch 1 all rows of the last ranks. The last of every `weights_every` batches has weights.
struct Rows {
  int64_t rows = 0, cols = 0;
  std::vector<int32_t> tokens, targets;
  std::vector<float> weights;           ///< empty: none
  std::vector<int32_t> document_begin;  ///< empty: each row is one document
  std::vector<float> references;        ///< one for each row, under an objective that has a reference
  int64_t top = 0;                      ///< ids of the teacher at each position; 0: none
  std::vector<int32_t> teacher_ids = {};
  std::vector<float> teacher_logprobs = {};

  train::BatchView view() const {
    return {rows,
            cols,
            tokens.data(),
            targets.data(),
            document_begin.empty() ? nullptr : document_begin.data(),
            weights.empty() ? nullptr : weights.data(),
            references.empty() ? nullptr : references.data(),
            top,
            top == 0 ? nullptr : teacher_ids.data(),
            top == 0 ? nullptr : teacher_logprobs.data()};
  }
};
Rows rows_of(const Problem& problem, int64_t rows, int64_t step);

}  // namespace hawser::testing
