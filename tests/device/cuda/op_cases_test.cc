// Runs the op-case table on a GPU: every row against the reference, within its tolerance, and twice with
// bit-identical results. Operands, workspaces and all other memory of rows (positions, samples, targets, a
// sum) are on the device.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/include/each_kernel.h"
#include "tests/device/cuda/mirrored_memory.h"
#include "tests/harness/run_op_case.h"

namespace hawser::testing {
namespace op_cases_test {

using namespace kernels;

/// The device whose table is called, and the memory of the row: the functions below have no parameters for
/// them.
thread_local OpenedDevice* gpu = nullptr;
thread_local MirroredMemory* memory = nullptr;

template <class T>
T* taken(const T* host, int64_t n) {
  return memory->copy_of(host, n);
}

// The take functions copy the memory outside operands and workspaces to which an op's arguments point.
void take(AttentionShape& s) {
  s.kv_begin = taken(s.kv_begin, s.batch * s.q_rows());
  s.dropout.samples = taken(s.dropout.samples, s.dropout.p > 0 ? s.batch : 0);
}
void take(AttentionForward& a) { take(a.s); }
void take(AttentionBackward& a) { take(a.s); }
/// Copies the sample numbers of all batch rows that the operand's rows touch.
void take(Dropout& dropout, int64_t rows, int64_t seq) {
  const int64_t batch = rows > 0 ? (dropout.first_row + rows - 1) / seq + 1 : 0;
  dropout.samples = taken(dropout.samples, dropout.p > 0 ? batch : 0);
}
void take(ResidualForward& a) { take(a.dropout, a.rows, a.seq); }
void take(NormForward& a) {
  if (a.residual.y != nullptr) take(a.residual);
}
void take(ResidualBackward& a) { take(a.dropout, a.rows, a.seq); }
void take(EmbeddingForward& a) {
  a.tokens = taken(a.tokens, a.rows);
  a.positions = taken(a.positions, a.rows);
}
void take(EmbeddingBackward& a) { a.index = taken(a.index, a.rows); }
/// Copies the angles of all positions up to the last one in use.
void take(Rope& a) {
  const int64_t places = a.rows > 0 ? *std::max_element(a.positions, a.positions + a.rows) + 1 : 0;
  a.cos_sin = taken(a.cos_sin, places * a.d);
  a.positions = taken(a.positions, a.rows);
}
void take(CrossEntropy& a) {
  a.targets = taken(a.targets, a.rows);
  a.grad_scale = taken(a.grad_scale, 1);
  a.weights = taken(a.weights, a.rows);
}
void take(CrossEntropyStatistics& a) { take(a.own); }
void take(CrossEntropyDivided& a) { take(a.own); }
/// Copies the scalars of a step, to which the arguments of every optimizer's kernel point. No other kernel
/// without a take function of its own points outside operands and workspaces.
template <class Args>
void take(Args& a) {
  if constexpr (requires { a.scalars; }) a.scalars = taken(a.scalars, 1);
}

/// True if arguments are only moved to the device and nothing is computed.
thread_local bool only_moved = false;

/// Runs a kernel on the device's copies of all buffers.
template <class Run>
void over_copies(const Run& run) {
  memory->send();
  if (!only_moved) run();
  memory->fetch();
}

/// Calls an op of the device and waits until it is done.
template <class Args>
void call(void (*op)(const Args&, Stream&), Args args, Stream& stream) {
  take(args);
  const Args there = memory->arguments_there(args);
  over_copies([&] { op(there, stream); });
}

template <auto kOp>
struct OnGpu;
template <class Args, void (*KernelTable::*kOp)(const Args&, Stream&)>
struct OnGpu<kOp> {
  static void run(const Args& args, Stream& stream) { call((*gpu)->kernels().*kOp, args, stream); }
};

/// The sum is on the host's stack and is copied back.
void sum_of_squares(const SumOfSquares& args, Stream& stream) {
  SumOfSquares with_copy = args;
  with_copy.sum = taken(args.sum, 1);
  call((*gpu)->kernels().sum_of_squares, with_copy, stream);
  std::memcpy(static_cast<void*>(args.sum), with_copy.sum, sizeof *args.sum);
}

/// The array of inputs is in host memory, and the inputs are in device memory.
void ordered_sum(const OrderedSum& args, Stream& stream) {
  std::vector<const void*> in;
  for (int32_t m = 0; m < args.members; ++m) in.push_back(memory->there(args.in[m]));
  OrderedSum with_copies = args;
  with_copies.in = nullptr;
  with_copies = memory->arguments_there(with_copies);
  with_copies.in = in.data();
  over_copies([&] { (*gpu)->kernels().ordered_sum(with_copies, stream); });
}

/// Wraps every op, because an op that used the host's pointers would fail only on a GPU.
KernelTable table_on_gpu() {
  KernelTable table = (*gpu)->kernels();
  each_kernel([&]<auto kOp>() { table.*kOp = OnGpu<kOp>::run; });
  table.sum_of_squares = &sum_of_squares;
  table.ordered_sum = &ordered_sum;
  return table;
}

bool is_emulated(OpenedDevice& device) { return std::string(device->info().name) == "emulated GPU"; }

class GpuOpCases : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<std::vector<char>> run(const OpCase& c, OpenedDevice& device) {
    MirroredMemory row(device);
    gpu = &device;
    memory = &row;
    return run_fast(c, table_on_gpu(), device->stream(kCompute),
                    [&](int64_t bytes) { return row.allocate(bytes); });
  }
};

TEST_P(GpuOpCases, AgreeWithTheReferenceAndGiveTheSameBitsTwice) {
  OpenedDevice device;
  for (const OpCase* c : cases_of(GetParam(), true)) {
    SCOPED_TRACE(c->op + "/" + c->name);
    const auto got = run(*c, device);
    expect_close(*c, got, run_reference(*c), !is_emulated(device));
    EXPECT_TRUE(run(*c, device) == got) << "other bits";
  }
}

/// Detects pointers to host memory in arguments. The emulator cannot detect them, because it shares the
/// host's memory.
TEST_P(GpuOpCases, TakeAllTheirMemoryToTheDevice) {
  OpenedDevice device;
  only_moved = true;
  for (const OpCase* c : cases_of(GetParam(), true)) {
    SCOPED_TRACE(c->op + "/" + c->name);
    run(*c, device);
  }
  only_moved = false;
}

class GpuOpCasesInAnyOrder : public GpuOpCases {};

/// Tests results of libraries that may choose the order of sums. The emulator's libraries have one order.
TEST_P(GpuOpCasesInAnyOrder, AgreeWithTheReference) {
  OpenedDevice device(0, false);
  if (is_emulated(device)) GTEST_SKIP();
  for (const OpCase* c : cases_of(GetParam(), true)) {
    SCOPED_TRACE(c->op + "/" + c->name);
    expect_close(*c, run(*c, device), run_reference(*c), true);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, GpuOpCasesInAnyOrder, ::testing::Values("matmul", "attention_backward"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Table, GpuOpCases, ::testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param; });

}  // namespace op_cases_test
}  // namespace hawser::testing
