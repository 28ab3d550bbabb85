// Workspaces that the table passes on: the caller's start at any multiple of 64, libraries get one at a
// multiple of 256, which cublasLtMatmul requires, and nothing is written after the end.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "kernels/cuda/matmul_cublaslt.h"
#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/cuda_emulation/emulated_stream.h"

namespace hawser::testing {
namespace workspace_test {

using kernels::Matmul;
using kernels::cuda::CublasLtApi;
using kernels::cuda::cuda_kernels;

struct Given {
  uintptr_t at = 0;
  size_t bytes = 0;
};
Given given;  // the workspace passed to the last product

CublasLtApi noting_api() {
  static const CublasLtApi& emulated = cuda_emulation::emulated_cublaslt();
  CublasLtApi api = emulated;
  api.Matmul = [](auto handle, auto desc, const void* alpha, const void* a, auto la, const void* b, auto lb,
                  const void* beta, const void* c, auto lc, void* d, auto ld, const auto* algorithm,
                  void* workspace, size_t bytes, void* stream) {
    given = {reinterpret_cast<uintptr_t>(workspace), bytes};
    return emulated.Matmul(handle, desc, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, workspace, bytes,
                           stream);
  };
  return api;
}

TEST(TableWorkspaces, BeginWhereLibrariesWantThem) {
  const CublasLtApi api = noting_api();
  cuda_emulation::EmulatedStream stream;
  kernels::cuda::CublasLt library(api, {}, stream.sticky);
  stream.cublaslt = &library;
  std::vector<float> a(32, 2), b(48, 3), c(24);
  Matmul m;
  m.c = c.data(), m.a = a.data(), m.b = b.data();
  m.m = 4, m.n = m.ldb = m.ldc = 6, m.k = m.lda = 8;
  for (const bool round : {false, true}) {
    m.round_to = round ? DType::kBf16 : DType::kF32;
    const auto bytes = static_cast<size_t>(cuda_kernels().matmul_workspace_bytes(m, 1));
    for (const size_t before : {0, 64, 128, 192}) {
      SCOPED_TRACE(before);
      void* memory = nullptr;
      ASSERT_EQ(posix_memalign(&memory, 256, before + bytes), 0);
      const std::unique_ptr<void, void (*)(void*)> owner(memory, std::free);
      m.workspace = static_cast<char*>(memory) + before;
      cuda_kernels().matmul(m, stream);
      EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
      EXPECT_EQ(c[5], 48);
      EXPECT_EQ(given.at % 256, 0u);
      EXPECT_GE(given.at, reinterpret_cast<uintptr_t>(m.workspace));
      EXPECT_LE(given.at + given.bytes, reinterpret_cast<uintptr_t>(m.workspace) + bytes);
    }
  }
}

TEST(TableWorkspaces, AreNoneWhereNothingIsNeeded) {
  kernels::AttentionForward f;
  f.s.seq_q = f.s.seq_k = f.s.batch = f.s.heads = f.s.kv_heads = f.s.head_dim = 1;
  EXPECT_EQ(cuda_kernels().attention_forward_workspace_bytes(f, 1), 0);
}

}  // namespace workspace_test
}  // namespace hawser::testing
