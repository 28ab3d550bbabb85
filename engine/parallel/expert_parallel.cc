#include "engine/parallel/expert_parallel.h"

#include <algorithm>
#include <cmath>

#include "engine/nn/context.h"
#include "engine/nn/moe/dispatcher.h"
#include "engine/nn/moe/experts.h"

namespace hawser::parallel {

using nn::advance;

struct ExpertParallel::Call {
  const nn::Context& ctx;
  const nn::RoutedRows& rows;
  const nn::ExpertsSaved& saved;
  int64_t experts() const { return rows.dispatcher.experts(); }
  int64_t width() const { return rows.experts.width(); }
};

struct ExpertParallel::Piece {
  nn::ExpertRows rows;
  int64_t source = 0;
  int64_t first = 0;  // its first row in the buffer
};

ExpertParallel::ExpertParallel(BlockWire* wire, const ExpertRound& round, const ExpertHost& host)
    : wire_(*wire), round_(round), host_(host) {
  const auto ranks = static_cast<size_t>(wire->ranks());
  sizes_.fill({std::vector<int64_t>(ranks), std::vector<int64_t>(ranks)});
}

/// Gathers every rank's expert offsets on every host. offsets[0] is always 0, so only offsets[1..E] are sent.
void ExpertParallel::share_counts(const Call& c) const {
  wire_.gather_to_host(ends(c), c.saved.ends, c.rows.routes.offsets + 1, c.experts());
}

/// Returns the address at which the host reads the offsets.
int32_t* ExpertParallel::ends(const Call& c) const {
  if (host_.ends == nullptr) return c.saved.ends;
  return host_.ends + c.ctx.expert_call * wire_.ranks() * c.experts();
}

/// Returns the rows that each rank has for the experts of rank `to` in a dry run. This rank's experts get as
/// many as the wire's imbalance states, but no row more than once for each expert. The experts of the other
/// ranks share the remaining rows.
int64_t ExpertParallel::assumed(const Call& c, int64_t to) const {
  const int64_t places = c.rows.dispatcher.places(c.ctx), balanced = places / wire_.ranks();
  const int64_t most = c.ctx.rows() * std::min(c.rows.dispatcher.top_k(), c.experts() / wire_.ranks());
  const auto busiest =
      std::min(most, static_cast<int64_t>(wire_.imbalance() * static_cast<double>(balanced)));
  return to == wire_.rank() ? busiest : std::min(balanced, (places - busiest) / (wire_.ranks() - 1));
}

/// Returns the rows that rank `from` has for the experts of rank `to`, in all rounds.
int64_t ExpertParallel::total(const Call& c, int64_t from, int64_t to) const {
  if (wire_.dry()) return assumed(c, to);
  const int64_t here = c.rows.experts.count();
  const int32_t* const ends = this->ends(c) + from * c.experts();
  return ends[(to + 1) * here - 1] - (to > 0 ? ends[to * here - 1] : 0);
}

/// Returns the dispatch slot of the first row that this rank sends to `to` in a round.
int64_t ExpertParallel::first_place(const Call& c, int64_t to, int64_t round) const {
  if (wire_.dry()) return 0;
  const int32_t* const own = ends(c) + wire_.rank() * c.experts();
  return (to > 0 ? own[to * c.rows.experts.count() - 1] : 0) + round * round_.rows;
}

/// Returns the rows that `from` sends to `to` in one round.
int64_t ExpertParallel::sent(const Call& c, int64_t from, int64_t to, int64_t round) const {
  return std::clamp<int64_t>(total(c, from, to) - round * round_.rows, 0, round_.rows);
}

/// Returns the maximum rows that this rank sends to all ranks in a round.
int64_t ExpertParallel::most_sent(const Call& c) const {
  return std::min(room(), c.rows.dispatcher.places(c.ctx));
}

/// Returns the maximum rows that any member sends to another in all rounds together.
int64_t ExpertParallel::most_total(const Call& c) const {
  int64_t most = 0;
  for (int64_t from = 0; from < wire_.ranks(); ++from)
    for (int64_t to = 0; to < wire_.ranks(); ++to) most = std::max(most, total(c, from, to));
  return most;
}

/// Returns the number of rounds, at least one and equal on all members. A dry run covers a second round, too.
int64_t ExpertParallel::rounds(const Call& c) const {
  const int64_t least = wire_.dry() && !round_.single ? round_.rows + 1 : 1;
  return (std::max(least, most_total(c)) + round_.rows - 1) / round_.rows;
}

const ExpertParallel::CallSizes& ExpertParallel::sizes_of(const Call& c, int64_t round,
                                                          int64_t row_bytes) const {
  CallSizes& sizes = sizes_[calls_++ % sizes_.size()];
  for (int64_t r = 0; r < wire_.ranks(); ++r) {
    sizes.out[static_cast<size_t>(r)] = sent(c, wire_.rank(), r, round) * row_bytes;
    sizes.in[static_cast<size_t>(r)] = sent(c, r, wire_.rank(), round) * row_bytes;
  }
  return sizes;
}

/// Begins sending rows of `width` elements to the ranks of their experts: row order[p] / top_k of `from` for
/// slot p. Uses workspace until the call is finished.
void ExpertParallel::begin_to_send(const Call& c, int64_t round, void* to, const void* from, DType type,
                                   const int32_t* order, int64_t top_k, int64_t width) const {
  const int64_t row_bytes = width * dtype_bytes(type);
  void* const out = c.ctx.workspace->take(most_sent(c) * row_bytes);
  const CallSizes& sizes = sizes_of(c, round, row_bytes);
  int64_t at = 0;
  for (int64_t r = 0; r < wire_.ranks(); ++r) {
    const int64_t rows = sent(c, wire_.rank(), r, round);
    kernels::GatherRows g;
    g.y = static_cast<char*>(out) + at * row_bytes;
    g.x = from;
    g.order = order + first_place(c, r, round);
    g.type = type;
    g.rows = rows, g.top_k = top_k, g.d = width;
    if (rows > 0) c.ctx.kernels->gather_rows(g, *c.ctx.stream);
    at += rows;
  }
  wire_.expect((room() + most_sent(c)) * row_bytes);
  wire_.begin_next();
  wire_.all_to_all_v(to, sizes.in, out, sizes.out);
}

void ExpertParallel::begin_to_send_rows(const Call& c, int64_t round, void* to, const void* rows,
                                        DType type) const {
  begin_to_send(c, round, to, rows, type, c.rows.routes.order, c.rows.dispatcher.top_k(), c.width());
}

/// Sends rows of x and their gate weights to the ranks of their experts, into the saved buffers. Returns the
/// received rows. If the saved rows are encoded, these are the rows before that, in the workspace.
const void* ExpertParallel::bring(const Call& c, int64_t round, const void* x) const {
  send_offsets(c, round, round_.rows);
  nn::SavedRows saved = c.rows.experts.saved_input(c.ctx, room());
  void* const full = saved.full(c.ctx, c.saved.x);
  const nn::RegionScope scope(*c.ctx.workspace);
  begin_to_send(c, round, c.saved.weights, c.rows.weights, DType::kF32, c.rows.routes.order, 1, 1);
  begin_to_send_rows(c, round, full, x, c.ctx.type);
  wire_.finish_overlapped();
  saved.rows = 0;
  for (int64_t r = 0; r < wire_.ranks(); ++r) saved.rows += sent(c, r, wire_.rank(), round);
  saved.encode(c.ctx, c.saved.x, full);
  return full;
}

/// Sends the device the offsets that assign received rows to experts. The host's copy is free once the device
/// has read it.
void ExpertParallel::send_offsets(const Call& c, int64_t round, int64_t rows_of_round) const {
  if (wire_.dry()) return;
  const int64_t here = c.rows.experts.count();
  int32_t* const host = host_.offsets == nullptr ? c.saved.offsets : host_.offsets;
  if (host_.link != nullptr) host_.link->wait_sent();
  int32_t* next = host;
  for (int64_t r = 0; r < wire_.ranks(); ++r) {
    const int64_t first = wire_.rank() * here, before = round * rows_of_round;
    const int64_t rows = std::clamp<int64_t>(total(c, r, wire_.rank()) - before, 0, rows_of_round);
    const int32_t* const ends = this->ends(c) + r * c.experts() + first;
    const int64_t begin = (first > 0 ? ends[-1] : 0) + before;  // may lie inside the rows of an expert
    *next++ = 0;
    for (int64_t e = 0; e < here; ++e)
      *next++ = static_cast<int32_t>(std::clamp<int64_t>(ends[e] - begin, 0, rows));
  }
  if (host_.link != nullptr)
    host_.link->send(c.saved.offsets, host, (next - host) * int64_t{sizeof(int32_t)});
}

/// Begins returning the experts' results, rounded to `type`, to the ranks of the rows. Returns where this
/// rank's results will be when the call is finished; uses workspace until they are read.
const void* ExpertParallel::begin_to_send_back(const Call& c, int64_t round, const float* rows, DType type,
                                               int64_t width) const {
  const int64_t row_bytes = width * dtype_bytes(type);
  const CallSizes& sizes = sizes_of(c, round, row_bytes);
  const void* rounded = rows;
  if (type != DType::kF32) {
    void* const to = c.ctx.workspace->take(room() * row_bytes);
    int64_t came = 0;
    for (const int64_t bytes : sizes.in) came += bytes / row_bytes;
    c.ctx.kernels->convert({to, rows, type, DType::kF32, came * width}, *c.ctx.stream);
    rounded = to;
  }
  void* const back = c.ctx.workspace->take(most_sent(c) * row_bytes);
  wire_.expect((room() + most_sent(c)) * row_bytes);
  wire_.begin_next();
  wire_.all_to_all_v(back, sizes.out, rounded, sizes.in);
  return back;
}

/// Converts received results to f32 and stores them at their dispatch slots.
void ExpertParallel::put_by_place(const Call& c, int64_t round, float* by_place, const void* came, DType type,
                                  int64_t width) const {
  const auto* const back = static_cast<const char*>(came);
  const int64_t row_bytes = width * dtype_bytes(type);
  int64_t at = 0;
  for (int64_t r = 0; r < wire_.ranks(); ++r) {
    const int64_t count = sent(c, wire_.rank(), r, round);
    const int64_t first = first_place(c, r, round);
    c.ctx.kernels->convert(
        {by_place + first * width, back + at * row_bytes, DType::kF32, type, count * width}, *c.ctx.stream);
    at += count;
  }
}

/// Calls use(piece) for the rows received from each rank, in ascending order; each piece is sorted by expert.
template <class Use>
void ExpertParallel::each_source(const Call& c, int64_t round, Use use) const {
  int64_t first = 0;
  for (int64_t r = 0; r < wire_.ranks(); ++r) {
    const int64_t rows = sent(c, r, wire_.rank(), round);
    const int32_t* const offsets = c.saved.offsets + r * (c.rows.experts.count() + 1);
    const int64_t first_expert = wire_.rank() * c.rows.experts.count();
    use(Piece{{offsets, c.saved.weights + first, nullptr, rows, round_.rows, first_expert}, r, first});
    first += rows;
  }
}

/// Visits the pieces that weight gradients sum in a round. With a single round, its buffer is divided into
/// the pieces that several rounds would have.
template <class Use>
void ExpertParallel::each_summed(const Call& c, int64_t round, Use use) const {
  if (!round_.single) return each_source(c, round, use);
  const int64_t before = round * round_.summed;
  each_source(c, 0, [&](Piece p) {
    const int64_t rows = std::clamp<int64_t>(p.rows.count - before, 0, round_.summed);
    p.first += rows > 0 ? before : 0, p.rows.count = rows;
    use(p);
  });
}

/// Calls sum(round) for the rounds that a weight pass sums. The offsets of all rows are on the device; for
/// several rounds, the offsets of each are sent.
template <class Sum>
void ExpertParallel::in_rounds(const Call& c, Sum sum) const {
  const int64_t rounds = std::max<int64_t>(1, (most_total(c) + round_.summed - 1) / round_.summed);
  for (int64_t round = 0; round < rounds; ++round) {
    if (rounds > 1) send_offsets(c, round, round_.summed);
    sum(round);
  }
}

nn::ExpertsSaved ExpertParallel::take_saved(const nn::Context& ctx, const nn::Dispatcher& dispatcher,
                                            const nn::Experts& experts, nn::Region& region,
                                            nn::Region& kept) const {
  const int64_t row_bytes = experts.width() * dtype_bytes(ctx.type);
  nn::ExpertsSaved saved;
  saved.h = experts.take_dh(ctx, region, room());
  saved.weights = region.take_as<float>(room());
  if (!round_.single) saved.own = region.take(ctx.rows() * row_bytes);
  saved.x = experts.saved_input(ctx, room()).take(ctx, kept);
  saved.ends = kept.take_as<int32_t>(wire_.ranks() * dispatcher.experts());
  saved.offsets = kept.take_as<int32_t>(dispatcher.experts() + wire_.ranks());
  return saved;
}

int64_t ExpertParallel::forward(const nn::Context& ctx, const nn::RoutedRows& rows,
                                const nn::ExpertsSaved& saved, float* y, const void* x,
                                bool accumulate) const {
  const nn::RegionScope scope(*ctx.workspace);
  const Call c{ctx, rows, saved};
  const int64_t width = c.width();
  share_counts(c);
  const int64_t last = rounds(c) - 1;
  if (saved.own != nullptr && last > 0)
    ctx.kernels->convert({saved.own, x, ctx.type, ctx.type, ctx.rows() * width}, *ctx.stream);
  float* const by_place =
      y != nullptr ? ctx.workspace->take_as<float>(rows.dispatcher.places(ctx) * width) : nullptr;
  for (int64_t round = y != nullptr ? last : 0; round >= 0; --round) {
    const nn::RegionScope of_round(*ctx.workspace);
    const void* const came = bring(c, round, x);
    float* const out = y != nullptr ? ctx.workspace->take_as<float>(room() * width) : nullptr;
    each_source(c, round, [&](const Piece& p) {
      rows.experts.forward(ctx, advance(saved.h, p.first * rows.experts.out(), ctx.type), p.rows,
                           out != nullptr ? out + p.first * width : nullptr,
                           advance(came, p.first * width, ctx.type));
    });
    if (y == nullptr) continue;
    const void* const results = begin_to_send_back(c, round, out, ctx.type, width);
    wire_.finish_overlapped();
    put_by_place(c, round, by_place, results, ctx.type, width);
  }
  if (y != nullptr) rows.dispatcher.combine(ctx, rows.routes, y, by_place, accumulate);
  return last + 1;
}

void ExpertParallel::take_weight_pass_inputs(const nn::Context& ctx, const nn::Dispatcher&,
                                             const nn::Experts& experts, nn::Region& region,
                                             nn::ExpertsMade* made) const {
  made->dh = experts.take_dh(ctx, region, room());
}

void ExpertParallel::take_activation(const nn::Context& ctx, const nn::Dispatcher&,
                                     const nn::Experts& experts, nn::Region& region,
                                     nn::ExpertsMade* made) const {
  made->a = experts.take_activation(ctx, region, room());
  made->dy = region.take(room() * experts.width() * dtype_bytes(ctx.type));
}

void ExpertParallel::backward_input(const nn::Context& ctx, const nn::RoutedRows& rows,
                                    const nn::ExpertsSaved& saved, const nn::ExpertsMade& made, float* dx,
                                    float* dweights, const void* dy, DType dy_type, bool accumulate) const {
  HWS_CHECK(dy_type == ctx.type);
  const Call c{ctx, rows, saved};
  const int64_t width = c.width(), places = rows.dispatcher.places(ctx), last = rounds(c) - 1;
  auto* const by_place = ctx.workspace->take_as<float>(places * width);
  auto* const weights_by_place = ctx.workspace->take_as<float>(places);
  for (int64_t round = 0; round <= last; ++round) {
    if (round > 0) remake(c, round);
    const nn::RegionScope of_round(*ctx.workspace);
    {
      const nn::RegionScope of_rows(*ctx.workspace);
      begin_to_send_rows(c, round, made.dy, dy, dy_type);
      wire_.finish_overlapped();
    }
    {
      const nn::RegionScope of_input(*ctx.workspace);
      auto* const out = ctx.workspace->take_as<float>(room() * width);
      auto* const out_weights = ctx.workspace->take_as<float>(room());
      each_source(c, round, [&](const Piece& p) {
        const int64_t h = p.first * rows.experts.out(), a = p.first * rows.experts.features();
        rows.experts.backward_input(ctx, advance(saved.h, h, ctx.type), p.rows, advance(made.dh, h, ctx.type),
                                    advance(made.a, a, ctx.type), out_weights + p.first,
                                    out + p.first * width, advance(made.dy, p.first * width, ctx.type),
                                    dy_type);
      });
      const void* const came_weights = begin_to_send_back(c, round, out_weights, DType::kF32, 1);
      const void* const came = begin_to_send_back(c, round, out, ctx.type, width);
      wire_.finish_overlapped();
      put_by_place(c, round, weights_by_place, came_weights, DType::kF32, 1);
      put_by_place(c, round, by_place, came, ctx.type, width);
    }
    if (round_.single) continue;  // the weight pass follows later
    down_weight(c, round, made);
    up_weight(c, round, made);
  }
  rows.dispatcher.combine(ctx, rows.routes, dx, by_place, accumulate);
  kernels::GatherRows g;  // from dispatch slots to choices; dropped choices have no slot
  g.y = dweights, g.x = weights_by_place;
  g.order = rows.routes.place;
  g.rows = places, g.top_k = g.d = 1;
  ctx.kernels->gather_rows(g, *ctx.stream);
}

/// Receives a later round's rows again, into the buffers of the previous round, which is complete.
void ExpertParallel::remake(const Call& c, int64_t round) const {
  const nn::RegionScope scope(*c.ctx.workspace);
  const void* const came = bring(c, round, c.saved.own);
  each_source(c, round, [&](const Piece& p) {
    c.rows.experts.forward(c.ctx, advance(c.saved.h, p.first * c.rows.experts.out(), c.ctx.type), p.rows,
                           nullptr, advance(came, p.first * c.width(), c.ctx.type));
  });
}

/// Sums weight gradients. The first piece starts the gradient or adds to the step's gradient so far; all
/// others are added. In the first round, pieces without rows are included.
void ExpertParallel::down_weight(const Call& c, int64_t round, const nn::ExpertsMade& made) const {
  const int64_t width = c.width(), features = c.rows.experts.features();
  each_summed(c, round, [&](const Piece& p) {
    if (round == 0 || p.rows.count > 0)
      c.rows.experts.backward_down_weight(c.ctx, p.rows, advance(made.a, p.first * features, c.ctx.type),
                                          advance(made.dy, p.first * width, c.ctx.type), c.ctx.type,
                                          round + p.source > 0);
  });
}

void ExpertParallel::up_weight(const Call& c, int64_t round, const nn::ExpertsMade& made) const {
  const nn::RegionScope scope(*c.ctx.workspace);
  const int64_t width = c.width(), out = c.rows.experts.out();
  const void* const x = c.rows.experts.saved_input(c.ctx, room()).decode(c.ctx, c.saved.x);
  each_summed(c, round, [&](const Piece& p) {
    if (round == 0 || p.rows.count > 0)
      c.rows.experts.backward_up_weight(c.ctx, p.rows, advance(made.dh, p.first * out, c.ctx.type),
                                        advance(x, p.first * width, c.ctx.type), round + p.source > 0);
  });
}

void ExpertParallel::backward_down_weight(const nn::Context& ctx, const nn::RoutedRows& rows,
                                          const nn::ExpertsSaved& saved, const nn::ExpertsMade& made,
                                          const void* /*dy*/, DType /*dy_type*/) const {
  const Call c{ctx, rows, saved};
  if (round_.single) in_rounds(c, [&](int64_t round) { down_weight(c, round, made); });
}

void ExpertParallel::backward_up_weight(const nn::Context& ctx, const nn::RoutedRows& rows,
                                        const nn::ExpertsSaved& saved, const nn::ExpertsMade& made,
                                        const void* /*x*/) const {
  const Call c{ctx, rows, saved};
  if (round_.single) in_rounds(c, [&](int64_t round) { up_weight(c, round, made); });
}

std::unique_ptr<nn::ExpertExchange> make_expert_exchange(BlockWire* wire, const ExpertRound& round,
                                                         const ExpertHost& host) {
  if (wire->ranks() == 1) return std::make_unique<nn::ExpertExchange>();
  return std::make_unique<ExpertParallel>(wire, round, host);
}

}  // namespace hawser::parallel
