// The matrix product: packed panels and a register-tile micro-kernel, after Goto and van de Geijn, "Anatomy
// of High-Performance Matrix Multiplication" (ACM TOMS 34(3), 2008). matmul_plan.h divides the work and
// chooses one of four forms, matmul_parts.h has the parts that these share, matmul_pack.h packs panels,
// matmul_micro.h computes in registers.
#include "kernels/cpu/level.h"
#include "kernels/cpu/matmul_columnwise.h"
#include "kernels/cpu/matmul_rowwise.h"
#include "kernels/cpu/matmul_shared.h"
#include "kernels/cpu/matmul_split.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

template <class Words>
void run(const Matmul& args, Stream& stream) {
  const MatmulParts<Words> parts(args, stream);
  switch (parts.plan.form) {
    case Form::kShared:
      return SharedForm<Words>(parts).run();
    case Form::kColumnwise:
      return ColumnwiseForm<Words>(parts).run();
    case Form::kRowwise:
      return RowwiseForm<Words>(parts).run();
    case Form::kSplit:
      return SplitForm<Words>(parts).run();
  }
}

}  // namespace

void matmul(const Matmul& args, Stream& stream) {
  if (args.m <= 0 || args.n <= 0) return;
  switch (product_type(args)) {
    case DType::kBf16:
      return run<Bf16Words>(args, stream);
    case DType::kF16:
      return run<F16Words>(args, stream);
    default:
      return run<F32Words>(args, stream);
  }
}

int64_t matmul_workspace_bytes(const Matmul& args, int32_t num_workers) {
  if (args.m <= 0 || args.n <= 0) return 0;
  return 4 * workspace_words(args, num_workers);
}

SumBlocks matmul_sum_blocks(DType type, int64_t k) {
  MatmulPlan plan{};
  const int64_t per_word = type == DType::kBf16 ? Bf16Words::kPerWord : 1;
  cut_k(plan, k, per_word);
  return {larger(1, plan.block_k), larger(1, plan.block_k * plan.segment), kBlockK * per_word};
}

}  // namespace hawser::kernels::HWS_LEVEL
