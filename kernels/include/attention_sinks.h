// Attention sinks: a learned number for each query head joins the denominator of the softmax, as the score of
// a key whose value is 0 (Xiao et al., arXiv 2309.17453; GPT-OSS). The kernels of attention do not read it:
// these kernels change the results of a forward over all keys, and attention_backward reads the changed
// results.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/stream.h"

namespace hawser::kernels {

/// The rows of both directions. Head h of row (b, t) has value_dim elements at o + (b * seq + t) * o_stride +
/// h * value_dim; its log-sum-exp is lse[(b * heads + h) * seq + t]; its sink is sinks[h], finite or
/// -infinity.
struct SinkRows {
  DType type = DType::kF32;  ///< type of o and dout, f32, bf16 or f16
  int64_t batch = 0, seq = 0, heads = 0, value_dim = 0, o_stride = 0;
  const float* sinks = nullptr;
};

/// lse' = log(e^lse + e^sink) and o' = o e^(lse - lse'), in place; o' is rounded once. A sink of -infinity
/// changes no bit.
struct SinkForward {
  SinkRows s;
  void* o = nullptr;
  float* lse = nullptr;
};

/// Computes each row's addends of the gradients of the sinks, from the results of SinkForward:
/// terms[(b * seq + t) * columns + first + h] = -e^(sink - lse') (dout · o'), with fp32 sums. The columns of
/// other heads become 0. The gradient of a sink is the sum of its column.
struct SinkBackward {
  SinkRows s;
  float* terms = nullptr;
  int64_t first = 0, columns = 0;
  const void* dout = nullptr;
  const void* o = nullptr;
  const float* lse = nullptr;
};

}  // namespace hawser::kernels
