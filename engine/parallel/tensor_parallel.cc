#include "engine/parallel/tensor_parallel.h"

namespace hawser::parallel {

void TensorParallel::begin_sum(const nn::Context&, float* own, float*, int64_t begin, int64_t end,
                               int64_t width) const {
  wire_.begin_next();
  wire_.all_reduce(own + begin * width, DType::kF32, (end - begin) * width);
}

void TensorParallel::sum(const nn::Context&, void* data, DType type, int64_t elements) const {
  wire_.all_reduce(data, type, elements);
}

void TensorParallel::gather(const nn::Context&, float* all, int64_t count) const {
  wire_.all_gather(all, all + rank() * count, DType::kF32, count);
}

}  // namespace hawser::parallel
