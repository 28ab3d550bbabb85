// GatheredRows: gathers the rows of an array that ranks divide: the input of a branch, or the gradient of its
// output. If exchanges overlap with products (Exchange::passes_rows), the rows go around the ring of ranks: a
// product processes the rows of one rank while the rows of the next one arrive (Wang et al., ASPLOS 2023,
// doi:10.1145/3567955.3567959). On the CPU, a product computes each row independently of the other rows, so
// this changes no bit of the result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/linear.h"

namespace hawser::nn {

class GatheredRows {
 public:
  /// For rows that are already complete, at `all`.
  explicit GatheredRows(const void* all) : all_(all) {}
  /// `own` has the local rows [rows, width], with room for LocalRows::room rows. Takes memory for all rows if
  /// ranks divide them, and moves nothing yet.
  GatheredRows(const Context& ctx, const void* own, DType type, int64_t width)
      : own_(own),
        whole_(ctx.exchange->take_rows(ctx, width * dtype_bytes(type))),
        type_(type),
        width_(width) {
    if (whole_ == nullptr) all_ = own;
  }

  /// Returns all rows, and gathers them first if they are not there.
  const void* all(const Context& ctx) {
    if (all_ == nullptr) {
      ctx.exchange->gather_rows(ctx, whole_, own_, type_, width_);
      all_ = whole_;
    }
    return all_;
  }

  /// Calls product(part, first, rows) until it has processed all rows of ctx. Each call processes
  /// `part.rows()` rows, from row `first` on, which are at `rows`. Afterwards, all() needs no exchange.
  template <typename Product>
  void compute(const Context& ctx, const Product& product) {
    const Exchange& exchange = *ctx.exchange;
    if (all_ != nullptr || !exchange.passes_rows()) return product(ctx, int64_t{0}, all(ctx));
    const int64_t ranks = exchange.row_ranks(), rows = ctx.rows();
    const LocalRows own = ctx.own_rows();
    ctx.kernels->convert({at_rank(own, exchange.rank()), own_, type_, type_, own.count * width_},
                         *ctx.stream);
    for (int64_t step = 0; step < ranks; ++step) {
      const int64_t owner = (exchange.rank() + ranks - step) % ranks, first = owner * own.room;
      const bool is_last = step + 1 == ranks;
      if (!is_last) exchange.begin_pass(ctx, whole_, owner, type_, width_);
      const int64_t count = std::min(own.room, rows - first);
      if (count > 0) product(ctx.of_rows(first, count), first, at_rank(own, owner));
      if (!is_last) exchange.finish();
    }
    all_ = whole_;
  }

  /// Computes to[rows, in], the gradient of a linear's input in the activation type, from these rows, which
  /// are the gradient of its output.
  void compute_input_gradient(const Context& ctx, const Linear& linear, void* to, DType dy_type) {
    compute(ctx, [&](const Context& part, int64_t first, const void* dy) {
      linear.backward_input(part, advance(to, first * linear.in(), ctx.type), ctx.type, dy, dy_type,
                            part.rows());
    });
  }

 private:
  void* at_rank(const LocalRows& own, int64_t rank) const {
    return advance(whole_, rank * own.room * width_, type_);
  }

  const void *own_ = nullptr, *all_ = nullptr;
  void* whole_ = nullptr;
  DType type_ = DType::kF32;
  int64_t width_ = 0;
};

}  // namespace hawser::nn
