// Kernels that memory limits read and write each operand once: as many bytes as nn/kernel_work.h counts, from
// which plans and benchmarks compute their time. The race detector sees every access, so it can count them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "engine/nn/kernel_work.h"
#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_stream.h"

namespace hawser::testing {
namespace bytes_test {

using kernels::KernelTable;

/// Memory of which accesses are counted: the operands that a kernel's bytes consist of. Rows of weights,
/// statistics and workspaces, which are small, have memory of their own.
class Operands {
 public:
  void* take(DType type, int64_t n) {
    char* const at = memory_.get() + used_;
    used_ += (dtype_bytes(type, n) + 63) / 64 * 64;
    EXPECT_LE(used_, kBytes);
    return at;
  }
  float* f32(int64_t n) { return static_cast<float*>(take(DType::kF32, n)); }
  void* bf16(int64_t n) { return take(DType::kBf16, n); }

  /// Runs the kernel; expects the bytes that the work of its arguments states, and `shared` bytes, which are
  /// reads of one address by all threads of a block.
  template <auto kKernel, class Args>
  void expect_once(const Args& args, int64_t shared = 0) {
    cuda_emulation::EmulatedStream stream;
    stream.most_shared_bytes = 227 << 10;
    cuda_emulation::count_accesses(memory_.get(), memory_.get() + kBytes);
    (kernels::cuda::cuda_kernels().*kKernel)(args, stream);
    EXPECT_EQ(stream.sticky.code, 0) << stream.sticky.message;
    const auto bytes = static_cast<double>(cuda_emulation::accessed_bytes() - shared);
    const nn::KernelWork work = nn::work_of(args);
    EXPECT_NEAR(bytes / work.bytes, 1, 0.002)
        << nn::kernel_name(work.kernel) << ": " << bytes << " bytes instead of " << work.bytes;
    cuda_emulation::count_accesses(nullptr, nullptr);
  }

 private:
  static constexpr int64_t kBytes = 8 << 20;
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> memory_{static_cast<char*>(std::calloc(kBytes, 1))};
  int64_t used_ = 0;
};

/// Memory that is not counted.
std::vector<float> uncounted(int64_t n) { return std::vector<float>(static_cast<size_t>(n), 0.5f); }
/// The table aligns workspaces.
std::vector<float> workspace_of(int64_t bytes) {
  return uncounted((bytes + kernels::cuda::kWorkspaceAlignment) / 4);
}

TEST(KernelBytes, OfAdamW) {
  constexpr int64_t kN = 20000;
  Operands memory;
  const kernels::OptimizerScalars scalars;
  kernels::AdamW a;
  a.weight = memory.f32(kN), a.m = memory.f32(kN), a.v = memory.f32(kN), a.grad = memory.f32(kN);
  a.copy = memory.bf16(kN), a.scalars = &scalars, a.n = kN;
  memory.expect_once<&KernelTable::adamw>(a);
}

TEST(KernelBytes, OfSwiGlu) {
  constexpr int64_t kRows = 16, kWidth = 1024;
  Operands memory;
  kernels::ActivationForward f;
  f.y = memory.bf16(kRows * kWidth), f.h = memory.bf16(2 * kRows * kWidth);
  f.type = DType::kBf16, f.rows = kRows, f.f = kWidth, f.kind = kernels::Activation::kSilu, f.gated = true;
  memory.expect_once<&KernelTable::activation_forward>(f);
  kernels::ActivationBackward b;
  b.dh = memory.bf16(2 * kRows * kWidth), b.dy = f.y, b.h = f.h;
  b.type = f.type, b.rows = f.rows, b.f = f.f, b.kind = f.kind, b.gated = true;
  memory.expect_once<&KernelTable::activation_backward>(b);
  b.y = memory.bf16(kRows * kWidth);
  memory.expect_once<&KernelTable::activation_backward>(b);
}

TEST(KernelBytes, OfNorms) {
  for (const int64_t width : {768, 4096}) {
    constexpr int64_t kRows = 16;
    const int64_t n = kRows * width;
    Operands memory;
    std::vector<float> weight = uncounted(width), dweight = weight, rstd = uncounted(kRows), mean = rstd;
    kernels::NormForward f;
    f.y = memory.bf16(n), f.x = memory.f32(n), f.mean = mean.data(), f.rstd = rstd.data(),
    f.weight = weight.data();
    f.bias = weight.data(), f.y_type = DType::kBf16;
    f.rows = kRows, f.d = f.x_stride = f.y_stride = width;
    memory.expect_once<&KernelTable::norm_forward>(f);
    f.residual.y = memory.f32(n), f.residual.x = f.x, f.residual.branch = memory.bf16(n);
    f.residual.branch_type = DType::kBf16, f.residual.rows = kRows, f.residual.d = width;
    f.x = f.residual.y;
    memory.expect_once<&KernelTable::norm_forward>(f);

    kernels::NormBackward b;
    b.dx = memory.f32(n), b.dy = f.y, b.dy_type = DType::kBf16, b.x = f.x, b.y = memory.bf16(n),
    b.y_type = DType::kBf16;
    b.rounded = memory.bf16(n), b.dx_accumulate = true;
    b.weight = b.bias = weight.data(), b.dweight = b.dbias = dweight.data(), b.mean = mean.data(),
    b.rstd = rstd.data();
    b.rows = kRows, b.d = b.dx_stride = b.dy_stride = b.x_stride = b.y_stride = width;
    std::vector<float> workspace = workspace_of(kernels::cuda::norm_backward_workspace_bytes(b, 1));
    b.workspace = workspace.data();
    memory.expect_once<&KernelTable::norm_backward>(b);
  }
}

/// A row of logits that fits into shared memory is read once. All 512 threads read the logit at the target.
TEST(KernelBytes, OfCrossEntropy) {
  constexpr int64_t kRows = 4, kVocab = 5000, kStride = 5056;
  Operands memory;
  const std::vector<int32_t> targets = {0, 17, 4096, 4999};
  const float scale = 0.25f;
  for (const bool backward : {false, true}) {
    std::vector<float> losses = uncounted(kRows);
    kernels::CrossEntropy c;
    c.losses = losses.data(), c.logits = memory.bf16(kRows * kStride), c.targets = targets.data(),
    c.grad_scale = &scale;
    c.rows = kRows, c.vocab = kVocab, c.stride = kStride, c.type = DType::kBf16, c.backward = backward;
    memory.expect_once<&KernelTable::cross_entropy>(c, kRows * 512 * 2);
  }
}

/// Each row of the gradient is read once, and each row of the table written once, which the test makes by
/// using every index: rows without an index are written by a memset, which no kernel is.
TEST(KernelBytes, OfTheLookUpGradient) {
  constexpr int64_t kRows = 96, kTable = 16, kWidth = 512;
  Operands memory;
  std::vector<int32_t> index;
  for (int32_t row = 0; row < kRows; ++row) index.push_back(row * 7 % kTable);
  kernels::EmbeddingBackward e;
  e.dweight = memory.f32(kTable * kWidth), e.dx = memory.f32(kRows * kWidth), e.index = index.data();
  e.rows = kRows, e.d = kWidth, e.table_rows = kTable;
  std::vector<float> workspace = workspace_of(kernels::cuda::embedding_backward_workspace_bytes(e, 1));
  e.workspace = workspace.data();
  memory.expect_once<&KernelTable::embedding_backward>(e);
}

}  // namespace bytes_test
}  // namespace hawser::testing
