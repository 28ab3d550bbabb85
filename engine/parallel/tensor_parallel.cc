#include "engine/parallel/tensor_parallel.h"

#include "engine/nn/context.h"

namespace hawser::parallel {

void TensorParallel::enter_backward(const nn::Context& ctx, float* own, float*, int64_t width) const {
  wire_.begin_next();
  wire_.all_reduce(own, DType::kF32, ctx.rows() * width);
}

void TensorParallel::leave(const nn::Context& ctx, float* own, float*, int64_t width) const {
  wire_.all_reduce(own, DType::kF32, ctx.rows() * width);
}

void TensorParallel::sum(const nn::Context&, void* data, DType type, int64_t elements) const {
  wire_.all_reduce(data, type, elements);
}

void TensorParallel::gather(const nn::Context&, float* all, int64_t count) const {
  wire_.all_gather(all, all + rank() * count, DType::kF32, count);
}

}  // namespace hawser::parallel
