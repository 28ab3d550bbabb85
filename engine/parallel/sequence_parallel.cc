#include "engine/parallel/sequence_parallel.h"

#include <algorithm>

#include "engine/nn/context.h"

namespace hawser::parallel {

nn::LocalRows SequenceParallel::own_rows(int64_t rows) const {
  const int64_t room = (rows + ranks() - 1) / ranks(), first = std::min(rows, rank() * room);
  return {first, std::min(room, rows - first), room};
}

/// Returns memory for all rows, including the padding of the last ranks.
float* SequenceParallel::whole_rows(const nn::Context& ctx, float*, int64_t width) const {
  return ctx.workspace->take_as<float>(ranks() * ctx.own_rows().room * width);
}

const void* SequenceParallel::gather_rows(const nn::Context& ctx, const void* own, DType type,
                                          int64_t width) const {
  const int64_t elements = ctx.own_rows().room * width;
  void* const whole = ctx.workspace->take(ranks() * elements * dtype_bytes(type));
  wire_.all_gather(whole, own, type, elements);
  return whole;
}

const void* SequenceParallel::enter(const nn::Context& ctx, const void* x, DType type, int64_t width) const {
  return gather_rows(ctx, x, type, width);
}

/// In `whole`, the chunks before this one take `begin` rows of each rank.
void SequenceParallel::begin_sum(const nn::Context&, float* own, float* whole, int64_t begin, int64_t end,
                                 int64_t width) const {
  wire_.begin_next();
  wire_.reduce_scatter(own + begin * width, whole + ranks() * begin * width, (end - begin) * width);
}

const void* SequenceParallel::leave_backward(const nn::Context& ctx, const void* dy, DType type,
                                             int64_t width) const {
  return gather_rows(ctx, dy, type, width);
}

std::unique_ptr<nn::Exchange> make_exchange(bool sequence_parallel, int64_t chunks, BlockWire* wire) {
  if (sequence_parallel) return std::make_unique<SequenceParallel>(wire, chunks);
  return std::make_unique<TensorParallel>(wire, chunks);
}

}  // namespace hawser::parallel
