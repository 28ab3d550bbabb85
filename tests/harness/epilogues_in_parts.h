// A kernel table with fused operations (Suited::epilogues), built from one without: it runs the product and
// the separate kernels one after the other, so results have the same bits.
#pragma once

#include <algorithm>

#include "tests/harness/kernel_levels.h"

namespace hawser::testing {

namespace in_parts {

inline const kernels::KernelTable& base() { return *kernel_tables().back(); }

/// Bytes of the f32 sums of a narrower bias gradient, a multiple of 64.
inline int64_t sums_bytes(const kernels::Matmul& m) {
  return m.c_type == DType::kF32 ? 0 : (m.m * 4 + 63) / 64 * 64;
}

inline kernels::ColumnSum bias_sums(const kernels::Matmul& m) {
  kernels::ColumnSum s = {static_cast<float*>(m.bias_gradient), m.a, m.a_type, m.k, m.m, m.lda, m.accumulate};
  s.workspace = m.workspace;
  if (m.c_type == DType::kF32 || m.workspace == nullptr) return s;
  s.dbias = static_cast<float*>(m.workspace);
  s.workspace = static_cast<char*>(m.workspace) + sums_bytes(m);
  return s;
}

inline void sum_bias_gradient(const kernels::Matmul& m, Stream& stream) {
  const kernels::ColumnSum sums = bias_sums(m);
  base().column_sum(sums, stream);
  if (m.c_type != DType::kF32)
    base().convert({m.bias_gradient, sums.dbias, m.c_type, DType::kF32, m.m}, stream);
}

inline void matmul(const kernels::Matmul& args, Stream& stream) {
  constexpr auto kGelu = kernels::Activation::kGeluTanh;
  kernels::Matmul alone = args;
  alone.epilogue = kernels::Epilogue::kNone;
  alone.bias_gradient = nullptr;
  if (args.epilogue == kernels::Epilogue::kGeluTanh) alone.c = args.aux;
  base().matmul(alone, stream);
  if (args.epilogue == kernels::Epilogue::kGeluTanh)
    base().activation_forward({args.c, args.aux, args.c_type, args.m, args.n, kGelu, false}, stream);
  if (args.epilogue == kernels::Epilogue::kGeluTanhGradient)
    base().activation_backward({args.c, args.c, args.aux, args.c_type, args.m, args.n, kGelu, false}, stream);
  if (args.bias_gradient != nullptr) sum_bias_gradient(args, stream);
}

inline int64_t matmul_workspace_bytes(const kernels::Matmul& args, int32_t workers) {
  const int64_t product = base().matmul_workspace_bytes(args, workers);
  if (args.bias_gradient == nullptr) return product;
  return std::max(product, sums_bytes(args) + base().column_sum_workspace_bytes(bias_sums(args), workers));
}

}  // namespace in_parts

inline const kernels::KernelTable& epilogues_in_parts() {
  static const kernels::Suited suited = [] {
    kernels::Suited s = *in_parts::base().suited;
    s.epilogues = true;
    return s;
  }();
  static const kernels::KernelTable table = [] {
    kernels::KernelTable t = in_parts::base();
    t.matmul = in_parts::matmul;
    t.matmul_workspace_bytes = in_parts::matmul_workspace_bytes;
    t.suited = &suited;
    return t;
  }();
  return table;
}

}  // namespace hawser::testing
