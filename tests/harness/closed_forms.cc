#include "tests/harness/closed_forms.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/assembly/agreement_bytes.h"
#include "engine/assembly/assemble.h"
#include "engine/assembly/precision.h"
#include "engine/config/config_tree.h"
#include "engine/nn/local_columns.h"
#include "engine/parallel/traffic.h"
#include "engine/report/plan_traffic.h"
#include "tests/harness/exchange_forms.h"

namespace hawser::testing {
namespace {

using parallel::DataParallelStrategy;
using parallel::GroupLayout;
using parallel::ModelSum;
using parallel::ReshardAfterForward;
using parallel::ShardLayout;
using plan::Op;

/// (parts - 1) / parts of Φ.
int64_t others(int64_t phi, int64_t parts) { return phi / parts * (parts - 1); }

class Forms {
 public:
  Forms(const ShardLayout& layout, const DataParallelStrategy& strategy, int64_t micro_batches,
        const WeightUses& uses)
      : layout_(layout), s_(strategy), micro_batches_(micro_batches), uses_(uses) {}

  std::vector<ClosedForm> take() {
    const int64_t reductions = s_.reduces_each(micro_batches_) ? micro_batches_ : 1;
    for (const ModelSum& sum : layout_.model_sums()) add_model_sum(sum, reductions);
    add(Op::kReduceGrad,
        reductions * gradients([&](const GroupLayout& g) { return sent_bytes(g, s_.wire); }));
    add_replicas(reductions);
    const int64_t sum = 64 * dtype_bytes(layout_.options().state);
    if (s_.stage == 0) add(Op::kGatherGrad, gradients([&](const GroupLayout&) { return sum; }));
    if (s_.stage == 1 || s_.stage == 2) add(Op::kUnshard, all_weights(0, layout_.blocks() - 1, true));
    if (s_.stage == 3) add(Op::kUnshard, micro_batches_ * gathers());
    return std::move(forms_);
  }

 private:
  void add(Op op, int64_t bytes) {
    if (bytes > 0) forms_.push_back({op, bytes});
  }

  void add_model_sum(const ModelSum& sum, int64_t reductions) {
    int64_t share = 0;  // a group's elements are divided among its ranks
    for (int32_t b = 0; b < layout_.blocks(); ++b)
      for (const int32_t g : layout_.groups_of(b))
        if (ShardLayout::takes(sum, layout_.group(g)))
          share += (layout_.group(g).elements + sum.ranks - 1) / sum.ranks;
    add(sum.op, 2 * reductions * (sum.ranks - 1) * share * dtype_bytes(layout_.options().state));
  }

  /// f32 addends, or records, go around the ring once, then sums in the wire type.
  void add_replicas(int64_t reductions) {
    const int64_t r = s_.replicas;
    int64_t bytes = 0;
    for (int32_t b = 0; b < layout_.blocks(); ++b)
      for (const int32_t g : layout_.groups_of(b)) {
        const GroupLayout& group = layout_.group(g);
        if (!group.trainable) continue;
        const bool records = sent_bytes(group, DType::kF32) < 64 * 4;
        int64_t share = (group.shard + r - 1) / r;
        if (records) share = (share + 63) / 64 * 64;
        const int64_t addends = records ? share / 64 * sent_bytes(group, DType::kF32) : share * 4;
        bytes += addends + share * dtype_bytes(s_.wire);
      }
    // Shards of experts are of another size, but as often on other ranks.
    add(Op::kReduceReplicas, reductions * (r - 1) * bytes);
  }

  /// Bytes of 64 numbers of a group's gradient, sent in records or as `otherwise`.
  int64_t sent_bytes(const GroupLayout& group, DType otherwise) const {
    if (!group.products || s_.records == DType::kF32) return 64 * dtype_bytes(otherwise);
    return s_.records == DType::kI8Block ? 66 : 34;
  }
  /// The others' parts of both kinds; `bytes_of` returns the bytes of 64 numbers of a group.
  template <typename BytesOf>
  int64_t gradients(BytesOf bytes_of) const {
    int64_t bytes = 0;
    for (int32_t b = 0; b < layout_.blocks(); ++b)
      for (const int32_t g : layout_.groups_of(b)) {
        const GroupLayout& group = layout_.group(g);
        const int64_t n = s_.shards_of(group.experts);
        if (group.trainable)
          bytes += others(mesh::padded_elements(group.elements, n), n) / 64 * bytes_of(group);
      }
    return bytes;
  }
  int64_t all_weights(int32_t first, int32_t last, bool trainable_only) const {
    return others(weights(first, last, s_.shards, trainable_only), s_.shards) +
           others(weights(first, last, s_.expert_shards, trainable_only, true), s_.expert_shards);
  }
  int64_t weights(int32_t first, int32_t last, int64_t parts, bool trainable_only,
                  bool of_experts = false) const {
    int64_t bytes = 0;
    for (int32_t b = first; b <= last; ++b)
      for (const int32_t g : layout_.groups_of(b))
        if (layout_.group(g).experts == of_experts && (layout_.group(g).trainable || !trainable_only))
          bytes +=
              dtype_bytes(layout_.group(g).type, mesh::padded_elements(layout_.group(g).elements, parts));
    return bytes;
  }

  /// Stage 3, for a micro-batch. A block is gathered for its forward and again for its backward. The head is
  /// gathered once, because loss and backward are one op. The embedding is gathered for the look-up and, if
  /// tied, for the head.
  int64_t gathers() const {
    const int32_t head = layout_.blocks() - 1;
    const int32_t lowest = std::max(1, uses_.first_trainable);
    const int64_t small = s_.reshard_group, all = all_weights(0, head, false);
    switch (s_.reshard) {
      case ReshardAfterForward::kKeep:
        return all;
      case ReshardAfterForward::kFull:
        return all + all_weights(lowest, head - 1, false) + (uses_.tied_head ? all_weights(0, 0, false) : 0);
      case ReshardAfterForward::kGroup:
        return all + others(weights(lowest, head - 1, small, false), small) +
               (uses_.tied_head ? others(weights(0, 0, small, false), small) : 0);
    }
    return 0;
  }

  const ShardLayout& layout_;
  const DataParallelStrategy& s_;
  int64_t micro_batches_;
  const WeightUses& uses_;
  std::vector<ClosedForm> forms_;
};

/// Of the first stage, as the plan report shows it.
std::vector<ClosedForm> all_forms(const train::EnginePlans& plans, const ShardLayout& layout,
                                  const nn::Model& model, const config::ResolvedConfig& config) {
  const auto first_trainable = static_cast<int32_t>(model.first_trainable_block());
  std::vector<ClosedForm> forms =
      closed_forms(layout, plans.strategy, config.batch.grad_accum_steps,
                   {.tied_head = model.config().loss_reads_table(), .first_trainable = first_trainable});
  if (config.mesh.pp == 1) {  // a stage has some of the blocks
    ExchangeShape shape;
    shape.local = model.local(), shape.mesh = config.mesh;
    shape.micro_batches = config.batch.grad_accum_steps, shape.batch = config.batch.micro_batch;
    shape.rows = shape.batch * nn::LocalColumns{config.mesh.cp, 0}.count(config.batch.sequence);
    shape.element_bytes = dtype_bytes(train::compute_type(config));
    shape.round_rows = train::strategies_of(config).form().expert_round.rows,
    shape.first_trainable = first_trainable;
    shape.teacher = config.teacher.on() && config.teacher.weight > 0;
    const std::vector<ClosedForm> exchanged = exchange_forms(shape);
    forms.insert(forms.end(), exchanged.begin(), exchanged.end());
  }
  const train::AgreementBytes agreed(
      config, train::strategies_of(config).form().columns.ranks,
      train::noted_fp8_operands(config, model.table()) + train::noted_head_scores(config, model.table()));
  const int64_t ranks = config.mesh.world();
  forms.push_back({Op::kCountTokens, parallel::agreement_bytes(agreed.count_words(), ranks)});
  forms.push_back(
      {Op::kGradNorm, parallel::agreement_bytes(agreed.norm_words(), ranks) + agreed.gathered_bytes()});
  return forms;
}

}  // namespace

std::vector<ClosedForm> closed_forms(const ShardLayout& layout, const DataParallelStrategy& strategy,
                                     int64_t micro_batches, const WeightUses& uses) {
  if (!strategy.many() && layout.model_sums().empty()) return {};
  return Forms(layout, strategy, micro_batches, uses).take();
}

std::string wrong_formulas(const std::string& json) {
  const config::ResolvedConfig config = train::assemble(config::ConfigTree::from_json(json)).config;
  const nn::Model model = train::model_of(config);
  train::Target target;
  target.kernels = &train::choose_kernels(config);
  const train::EnginePlans plans = train::make_plans(model, config, target, false);
  const ShardLayout layout(
      model.table(), train::layout_options(config, train::strategies_of(config), plans.strategy, 0, false));
  std::string wrong;
  const std::vector<ClosedForm> forms = all_forms(plans, layout, model, config);
  for (const train::TrafficRow& row : train::traffic_of(plans, layout, model, config)) {
    const auto form =
        std::find_if(forms.begin(), forms.end(), [&](const ClosedForm& f) { return f.op == row.op; });
    const int64_t bytes = form == forms.end() ? 0 : form->bytes;
    if (row.formula.empty() == (bytes == row.bytes))
      wrong += fmt::format("{}: {} bytes, by closed form {}, formula \"{}\"\n", plan::op_name(row.op),
                           row.bytes, bytes, row.formula);
  }
  return wrong;
}

}  // namespace hawser::testing
