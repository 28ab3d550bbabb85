#include "engine/parallel/sequence_parallel.h"

#include <algorithm>

#include "engine/nn/context.h"

namespace hawser::parallel {

nn::LocalRows SequenceParallel::own_rows(int64_t rows) const {
  const int64_t room = (rows + ranks() - 1) / ranks(), first = std::min(rows, rank() * room);
  return {first, std::min(room, rows - first), room};
}

/// Returns memory for all rows, including the padding of the last ranks.
void* SequenceParallel::take_rows(const nn::Context& ctx, int64_t row_bytes) const {
  return ctx.workspace->take(ranks() * ctx.own_rows().room * row_bytes);
}

void SequenceParallel::gather_rows(const nn::Context& ctx, void* whole, const void* own, DType type,
                                   int64_t width) const {
  wire_.all_gather(whole, own, type, ctx.own_rows().room * width);
}

void SequenceParallel::begin_pass(const nn::Context& ctx, void* whole, int64_t owner, DType type,
                                  int64_t width) const {
  const int64_t elements = ctx.own_rows().room * width, before = (owner + ranks() - 1) % ranks();
  wire_.begin_next();
  wire_.shift(nn::advance(whole, before * elements, type), nn::advance(whole, owner * elements, type), type,
              elements);
}

/// In `whole`, the chunks before this one take `begin` rows of each rank.
void SequenceParallel::begin_sum(const nn::Context&, float* own, float* whole, int64_t begin, int64_t end,
                                 int64_t width) const {
  wire_.begin_next();
  wire_.reduce_scatter(own + begin * width, whole + ranks() * begin * width, (end - begin) * width);
}

std::unique_ptr<nn::Exchange> make_exchange(bool sequence_parallel, int64_t chunks, BlockWire* wire) {
  if (sequence_parallel) return std::make_unique<SequenceParallel>(wire, chunks);
  return std::make_unique<TensorParallel>(wire, chunks);
}

}  // namespace hawser::parallel
