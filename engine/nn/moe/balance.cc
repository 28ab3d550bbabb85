#include "engine/nn/moe/balance.h"

#include <fmt/format.h>

#include <algorithm>

namespace hawser::nn {

int64_t sparse_layers(const ModelConfig& model) {
  int64_t count = 0;
  for (int64_t layer = 0; layer < model.blocks(); ++layer) count += model.is_sparse(layer) ? 1 : 0;
  return count;
}

Balance::Balance(const ParameterTable& table, const ModelConfig& model, const MoeTraining& training,
                 int64_t layer)
    : experts_(model.moe.experts), top_k_(model.moe.top_k), first_tally_(0), training_(training) {
  for (int64_t below = 0; below < layer; ++below)
    if (model.is_sparse(below)) first_tally_ += tally_words(model.moe);
  const Parameter* const bias = table.find(fmt::format("blocks.{}.moe.router.bias", layer));
  if (bias != nullptr && bias->balances) bias_ = table.place(bias->name);
}

namespace {

/// Returns the positions of a full row. Ranks that divide its columns have equal parts (config/rules_moe.cc).
int64_t positions_of(const Context& ctx) { return ctx.seq * ctx.columns->own().ranks; }

}  // namespace

void Balance::count(const Context& ctx, float* statistics, const RouterSaved& choice,
                    const kernels::RouterShape& shape, const Routes& routes, int64_t rounds) const {
  if (!ctx.training) return;
  RegionScope scope(*ctx.workspace);
  kernels::RouterStatistics s;
  s.out = statistics;
  s.logits = choice.logits;
  s.choice = choice.choice;
  s.batch = ctx.batch, s.seq = ctx.seq, s.first_row = ctx.first_row;
  s.shape = shape;
  s.workspace = ctx.workspace->take_as<float>(kernels::router_statistics_workspace(s));
  ctx.kernels->router_statistics(s, *ctx.stream);
  const int64_t numbers = ctx.batch * kernels::statistics_width(experts_);
  ctx.row_peers->sum(ctx, statistics, DType::kF32, numbers);
  ctx.columns->sum(statistics, numbers);
  if (ctx.tallies == nullptr) return;
  const bool first = ctx.row_peers->rank() == 0 && ctx.columns->own().rank == 0;
  kernels::RouterTally t;
  t.tally = ctx.tallies + first_tally_;
  t.statistics = statistics;
  t.offsets = routes.offsets;
  t.batch = first ? ctx.batch : 0;  // the statistics are already sums over these ranks
  t.positions = positions_of(ctx), t.rounds = rounds;
  t.shape = shape;
  ctx.kernels->router_tally(t, *ctx.stream);
}

/// Returns the scales of the losses. The derivative of the balance loss with respect to a score is the loss
/// weight divided by the rows of the step, times E / (k T) count / T (kernels::balance_factor).
RouterLosses Balance::losses(const Context& ctx, const float* statistics) const {
  const int64_t positions = positions_of(ctx);
  const auto rows = static_cast<double>(ctx.step_rows);
  const double factor = kernels::balance_factor(experts_, top_k_, positions);
  return {statistics, static_cast<float>(training_.aux_loss / rows * factor),
          static_cast<float>(training_.z_loss / (rows * static_cast<double>(positions)))};
}

void Balance::move_bias(const GroupRange& weights, const int64_t* tallies,
                        const kernels::KernelTable& kernels, Stream& stream) const {
  if (!bias_ || training_.balance_rate == 0) return;
  const int64_t begin = std::max(weights.begin, bias_.offset),
                end = std::min(weights.end, bias_.offset + experts_);
  if (begin >= end) return;
  kernels::RouterBalance b;
  b.load = tallies + first_tally_;
  b.experts = experts_;
  b.rate = static_cast<float>(training_.balance_rate);
  b.first = begin - bias_.offset, b.count = end - begin;
  b.bias = weights.data + (begin - weights.begin);
  kernels.router_balance(b, stream);
}

}  // namespace hawser::nn
