// The op-case table on a GPU: every row against the reference, in its tolerance; twice, with the same bits.
// Operands lie in pinned host memory, which the GPU reaches at the same address, because rows read and write
// them on the host too; what rows keep elsewhere (positions, samples, targets, a sum) is taken there for the
// call.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/device/cuda/opened_device.h"
#include "tests/harness/run_op_case.h"

namespace hawser::testing {
namespace {

using namespace kernels;

/// The device whose table is called, for the functions below, which have no room for it.
thread_local OpenedDevice* gpu = nullptr;

template <class T>
const T* taken(const T* host, int64_t n) {
  if (host == nullptr || n == 0) return host;
  T* const there = gpu->on_host<T>(n);
  std::memcpy(there, host, static_cast<size_t>(n) * sizeof(T));
  return there;
}

// Takes along what the arguments of an op point to outside of operands and workspaces.
void take(AttentionShape& s) {
  s.kv_begin = taken(s.kv_begin, s.batch * s.seq_q);
  s.dropout.samples = taken(s.dropout.samples, s.dropout.p > 0 ? s.batch : 0);
}
void take(AttentionForward& a) { take(a.s); }
void take(AttentionBackward& a) { take(a.s); }
void take(ResidualForward& a) {
  a.dropout.samples = taken(a.dropout.samples, a.dropout.p > 0 ? a.rows / a.seq : 0);
}
void take(ResidualBackward& a) {
  a.dropout.samples = taken(a.dropout.samples, a.dropout.p > 0 ? a.rows / a.seq : 0);
}
void take(EmbeddingForward& a) {
  a.tokens = taken(a.tokens, a.rows);
  a.positions = taken(a.positions, a.rows);
}
void take(EmbeddingBackward& a) { a.index = taken(a.index, a.rows); }
void take(Rope& a) { a.positions = taken(a.positions, a.rows); }
void take(CrossEntropy& a) {
  a.targets = taken(a.targets, a.rows);
  a.grad_scale = taken(a.grad_scale, 1);
}
void take(AdamW& a) { a.scalars = taken(a.scalars, 1); }
void take(Sgd& a) { a.scalars = taken(a.scalars, 1); }
void take(AdamWBf16& a) { a.scalars = taken(a.scalars, 1); }
void take(SgdBf16& a) { a.scalars = taken(a.scalars, 1); }
template <class Args>
void take(Args&) {}

/// Calls an op of the device and waits until it is done.
template <auto kOp>
struct OnGpu;
template <class Args, void (*KernelTable::*kOp)(const Args&, Stream&)>
struct OnGpu<kOp> {
  static void run(const Args& args, Stream& stream) {
    Args there = args;
    take(there);
    ((*gpu)->kernels().*kOp)(there, stream);
    gpu->ok((*gpu)->synchronize(kCompute));
  }
};

/// The sum lies on the host's stack and comes back.
void sum_of_squares(const SumOfSquares& args, Stream& stream) {
  SumOfSquares there = args;
  auto* const sum = const_cast<ExactSum*>(taken(args.sum, 1));
  there.sum = sum;
  (*gpu)->kernels().sum_of_squares(there, stream);
  gpu->ok((*gpu)->synchronize(kCompute));
  std::memcpy(static_cast<void*>(args.sum), sum, sizeof *sum);
}

KernelTable table_on_gpu() {
  KernelTable table = (*gpu)->kernels();
  table.matmul = OnGpu<&KernelTable::matmul>::run;
  table.embedding_forward = OnGpu<&KernelTable::embedding_forward>::run;
  table.embedding_backward = OnGpu<&KernelTable::embedding_backward>::run;
  table.norm_forward = OnGpu<&KernelTable::norm_forward>::run;
  table.norm_backward = OnGpu<&KernelTable::norm_backward>::run;
  table.activation_forward = OnGpu<&KernelTable::activation_forward>::run;
  table.activation_backward = OnGpu<&KernelTable::activation_backward>::run;
  table.rope = OnGpu<&KernelTable::rope>::run;
  table.residual_forward = OnGpu<&KernelTable::residual_forward>::run;
  table.residual_backward = OnGpu<&KernelTable::residual_backward>::run;
  table.attention_forward = OnGpu<&KernelTable::attention_forward>::run;
  table.attention_backward = OnGpu<&KernelTable::attention_backward>::run;
  table.cross_entropy = OnGpu<&KernelTable::cross_entropy>::run;
  table.soft_cap = OnGpu<&KernelTable::soft_cap>::run;
  table.column_sum = OnGpu<&KernelTable::column_sum>::run;
  table.sum_of_squares = &sum_of_squares;
  table.add = OnGpu<&KernelTable::add>::run;
  table.convert = OnGpu<&KernelTable::convert>::run;
  table.ordered_sum = OnGpu<&KernelTable::ordered_sum>::run;
  table.adamw = OnGpu<&KernelTable::adamw>::run;
  table.sgd = OnGpu<&KernelTable::sgd>::run;
  table.adamw_bf16 = OnGpu<&KernelTable::adamw_bf16>::run;
  table.sgd_bf16 = OnGpu<&KernelTable::sgd_bf16>::run;
  return table;
}

std::vector<std::vector<char>> run_on_gpu(const OpCase& c) {
  OpenedDevice device;
  gpu = &device;
  return run_fast(c, table_on_gpu(), device->stream(kCompute),
                  [&](int64_t bytes) { return device.on_host<char>(bytes); });
}

class GpuOpCases : public ::testing::TestWithParam<std::string> {};

TEST_P(GpuOpCases, AgreeWithTheReference) {
  for (const OpCase* c : cases_of(GetParam(), true)) {
    SCOPED_TRACE(c->op + "/" + c->name);
    expect_close(*c, run_on_gpu(*c), run_reference(*c));
  }
}

TEST_P(GpuOpCases, GiveTheSameBitsTwice) {
  for (const OpCase* c : cases_of(GetParam(), true)) {
    SCOPED_TRACE(c->op + "/" + c->name);
    EXPECT_TRUE(run_on_gpu(*c) == run_on_gpu(*c));
  }
}

INSTANTIATE_TEST_SUITE_P(Table, GpuOpCases, ::testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace hawser::testing
