// Common parts of the rows of the op-case table for attention: over complete rows and caches
// (op_cases_attention.cc), and over parts of rows (op_cases_attention_pieces.cc).
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/include/attention.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {

/// Types in which q, k, v and the other arrays are stored, and from which products are formed.
struct AttentionNumbers {
  DType type;
  DType round_to = DType::kF32;

  DType product() const { return type != DType::kF32 ? type : round_to; }
  std::string word() const {
    return type_word(type) + (round_to != DType::kF32 ? "_to_" + type_word(round_to) : "");
  }
  // Probabilities and gradients of scores are rounded to 8 bits between the products. The largest errors over
  // all rows and levels were 0.009 of the scale of o and 0.021 of that of the gradients.
  // Halves have 11 bits, so their errors are an eighth in the forward. In the backward a few gradients of
  // scores are large, and the largest error was 0.0093.
  double forward_tolerance() const {
    return product() == DType::kF32 ? 1e-5 : product() == DType::kF16 ? 0.012 / 8 : 0.012;
  }
  double backward_tolerance(double spread) const {
    return product() == DType::kF32 ? 3e-5 * spread : product() == DType::kF16 ? 0.012 : 0.03;
  }
};

inline constexpr AttentionNumbers kAttentionNumbers[] = {
    {DType::kF32}, {DType::kBf16}, {DType::kF32, DType::kBf16}, {DType::kF16}, {DType::kF32, DType::kF16}};

/// Rounds the values of `operand` as the products do, so that the reference uses the same values.
inline Operand multiplied(Operand operand, const AttentionNumbers& numbers) {
  for (double& x : operand.value) x = rounded(x, numbers.product());
  return operand;
}

/// A problem with the arrays to which its shape points.
struct BoundAttention {
  kernels::AttentionShape s;
  std::shared_ptr<std::vector<int32_t>> kv_begin = std::make_shared<std::vector<int32_t>>();
  std::shared_ptr<std::vector<uint64_t>> samples = std::make_shared<std::vector<uint64_t>>();
  int64_t q_rows() const { return s.batch * s.q_rows(); }
  int64_t kv_rows() const { return s.batch * s.kv_batch_rows; }
};

/// Returns the shape of rows of `seq` queries and as many keys.
inline kernels::AttentionShape attention_shape(int64_t batch, int64_t seq, int64_t heads, int64_t kv_heads,
                                               int64_t head_dim) {
  kernels::AttentionShape s;
  s.batch = batch;
  s.seq_q = s.seq_k = seq;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.head_dim = head_dim;
  s.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return s;
}

/// Returns the shape with another head size of v and o.
inline kernels::AttentionShape with_values(kernels::AttentionShape s, int64_t value_dim) {
  s.value_dim = value_dim;
  return s;
}

}  // namespace hawser::testing
