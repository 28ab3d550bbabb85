#include "engine/report/plan_traffic.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/assembly/agreement_bytes.h"
#include "engine/assembly/precision.h"
#include "engine/parallel/traffic_formulas.h"

namespace hawser::train {
namespace {

/// Returns the formula of a host all-reduce of all ranks, or of a strategy's transfer.
std::string formula_of(plan::Op op, const plan::Plan& train, const parallel::FormulaTerms& terms,
                       const config::ResolvedConfig& config, const nn::ParameterTable& table) {
  const int64_t operands = noted_fp8_operands(config, table), heads = noted_head_scores(config, table);
  const AgreementBytes agreed(config, strategies_of(config).form().columns.ranks, operands + heads);
  const auto gathered = [](int64_t count, const char* of) {
    return count > 0 ? fmt::format(", + (D-1)·{}·4 for the maxima of {}", count, of) : "";
  };
  const auto agreement = [&](int64_t words) {
    return fmt::format("2(D-1)·⌈{}/D⌉·8, D = {} ranks agree", words, config.mesh.world());
  };
  if (op == plan::Op::kCountTokens) return agreement(agreed.count_words());
  if (op == plan::Op::kGradNorm)
    return agreement(agreed.norm_words()) + gathered(operands, "fp8 operands") +
           gathered(heads, "attention scores");
  return parallel::traffic_formula(op, train, terms);
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
  const parallel::FormulaTerms terms{layout,
                                     plans.strategy,
                                     config.mesh,
                                     model.local(),
                                     config.batch.grad_accum_steps,
                                     dtype_bytes(compute_type(config)),
                                     static_cast<int32_t>(model.first_trainable_block()),
                                     config.teacher.on() && config.teacher.weight > 0};
  for (TrafficRow& row : rows) row.formula = formula_of(row.op, plans.train, terms, config, model.table());
  return rows;
}

int64_t sent_bytes(const plan::Plan& plan) {
  int64_t bytes = 0;
  for (const plan::Instruction& n : plan.instructions) bytes += n.sent_bytes;
  return bytes;
}

}  // namespace hawser::train
