// BranchSum: the output of a branch (or the gradient of its input), which is a sum over the ranks that
// compute the branch. Each rank computes its addend for all rows by one product, in chunks of rows
// (Exchange::chunks): while ranks exchange a chunk, the product computes the next one.
//
// If ranks divide the rows, a chunk consists of a slice of every rank's rows, so each rank keeps the rows
// that it has without chunks. The addends of a chunk are contiguous, rank after rank, in memory that only the
// product and the exchange use. A sum adds element by element in a fixed order of ranks, so the number of
// chunks changes no bit of it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/nn/context.h"
#include "engine/nn/linear.h"

namespace hawser::nn {

class BranchSum {
 public:
  /// `own` receives the sum: the local rows of [rows, width]. Takes memory for all rows if ranks divide them.
  /// `type` must be f32 if several ranks compute the branch. With one rank it may be any type, because its
  /// exchange accesses nothing.
  BranchSum(const Context& ctx, void* own, DType type, int64_t width)
      : exchange_(*ctx.exchange),
        own_(static_cast<float*>(own)),
        whole_(exchange_.whole_rows(ctx, own_, width)),
        type_(type),
        width_(width) {}

  DType type() const { return type_; }

  /// Computes the addends and begins to sum them. product(part, first, to) computes `part.rows()` rows
  /// of ctx, from row `first` on, into `to`.
  template <typename Product>
  void compute(const Context& ctx, const Product& product) const {
    const int64_t rows = ctx.rows(), room = ctx.own_rows().room, chunks = exchange_.chunks();
    if (chunks == 1) {
      product(ctx, int64_t{0}, all_rows());
      return begin(ctx);
    }
    const int64_t ranks = exchange_.row_ranks();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t begin = room * chunk / chunks, end = room * (chunk + 1) / chunks;
      if (begin == end) continue;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t first = rank * room + begin, last = std::min(rank * room + end, rows);
        void* const to = advance(all_rows(), (ranks * begin + rank * (end - begin)) * width_, type_);
        if (first < last) product(ctx.of_rows(first, last - first), first, to);
      }
      exchange_.begin_sum(ctx, own_, whole_, begin, end, width_);
    }
  }

  /// Computes the addends x W^T of a linear from x[rows, in] (dense, activation type), and begins to sum
  /// them.
  void compute_forward(const Context& ctx, const Linear& linear, const void* x) const {
    compute(ctx, [&](const Context& part, int64_t first, void* to) {
      linear.forward(part, to, type_, linear.out(), advance(x, first * linear.in(), ctx.type), part.rows());
    });
  }

  /// Returns memory for the addends of all rows in order, for a caller that computes them and then calls
  /// begin.
  void* all_rows() const { return whole_; }
  /// Begins to sum all rows at once.
  void begin(const Context& ctx) const {
    exchange_.begin_sum(ctx, own_, whole_, 0, ctx.own_rows().room, width_);
  }
  /// Completes the local rows.
  void finish() const { exchange_.finish(); }

 private:
  const Exchange& exchange_;
  float* own_;
  float* whole_;
  DType type_;
  int64_t width_;
};

}  // namespace hawser::nn
