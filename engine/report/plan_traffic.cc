#include "engine/report/plan_traffic.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/assembly/agreement_bytes.h"
#include "engine/nn/local_columns.h"
#include "engine/parallel/closed_forms.h"
#include "engine/parallel/exchange_forms.h"
#include "engine/parallel/traffic.h"

namespace hawser::train {
namespace {

parallel::ExchangeShape exchange_shape(const nn::Model& model, const config::ResolvedConfig& config) {
  const config::BatchConfig& batch = config.batch;
  parallel::ExchangeShape shape;
  shape.local = model.local(), shape.mesh = config.mesh;
  shape.micro_batches = batch.grad_accum_steps;
  shape.batch = batch.micro_batch;
  const parallel::Strategies strategies = strategies_of(config);
  shape.rows = batch.micro_batch * strategies.form().columns.count(batch.sequence);
  shape.element_bytes = dtype_bytes(compute_type(config));
  shape.round_rows = strategies.form().expert_round.rows;
  shape.first_trainable = static_cast<int32_t>(model.first_trainable_block());
  return shape;
}

std::vector<parallel::ClosedForm> all_forms(const EnginePlans& plans, const parallel::ShardLayout& layout,
                                            const nn::Model& model, const config::ResolvedConfig& config) {
  const parallel::WeightUses uses{model.config().tied_head,
                                  static_cast<int32_t>(model.first_trainable_block())};
  std::vector<parallel::ClosedForm> forms =
      parallel::closed_forms(layout, plans.strategy, config.batch.grad_accum_steps, uses);
  if (plans.strategy.stage_of.empty())  // a stage has some of the blocks
    for (parallel::ClosedForm& form : parallel::exchange_forms(exchange_shape(model, config)))
      forms.push_back(std::move(form));
  const int64_t ranks = config.mesh.world();
  const AgreementBytes agreed(config);
  for (const auto& [op, words] :
       {std::pair{plan::Op::kCountTokens, agreed.count_words()}, {plan::Op::kGradNorm, agreed.norm_words()}})
    forms.push_back({op, fmt::format("2(D-1)·⌈{}/D⌉·8, D = {} ranks agree", words, ranks),
                     parallel::agreement_bytes(words, ranks)});
  return forms;
}

}  // namespace

std::vector<TrafficRow> traffic_of(const EnginePlans& plans, const parallel::ShardLayout& layout,
                                   const nn::Model& model, const config::ResolvedConfig& config) {
  std::vector<TrafficRow> rows;
  for (const plan::Instruction& n : plans.train.instructions) {
    if (n.sent_bytes == 0) continue;
    auto row = std::find_if(rows.begin(), rows.end(), [&](const TrafficRow& r) { return r.op == n.op; });
    if (row == rows.end()) row = rows.insert(row, {n.op, 0, 0, ""});
    row->instructions += 1;
    row->bytes += n.sent_bytes;
  }
  for (const parallel::ClosedForm& form : all_forms(plans, layout, model, config))
    for (TrafficRow& row : rows)
      if (row.op == form.op && row.bytes == form.bytes) row.formula = form.formula;
  return rows;
}

int64_t sent_bytes(const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const plan::Instruction& n : plan.instructions) bytes += n.sent_bytes;
  return bytes;
}

}  // namespace hawser::train
