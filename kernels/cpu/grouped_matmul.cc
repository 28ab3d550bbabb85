// The products of experts: each is a separate matrix product (matmul.cc), because a row's result does not
// depend on the other rows. Experts with many rows are multiplied one after the other, by all workers. If
// experts have few rows, workers would mostly wait for each other, so one worker computes a whole expert.
#include HWS_SIMD

#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

constexpr int64_t kFewRows = 64;

/// A stream with one worker, the caller.
Stream alone() {
  return {[](Stream*, int64_t tasks, TaskFn fn, void* arg) {
            for (int64_t task = 0; task < tasks; ++task) fn(arg, task, 0);
          },
          1};
}

/// Returns the product of one group's rows [begin, begin + rows).
HWS_SMALL Matmul product_of(const GroupedMatmul& g, int64_t group, int64_t begin, int64_t rows) {
  const auto at = [](const void* p, DType type, int64_t element) {
    return static_cast<const char*>(p) + element * (type == DType::kF32 ? 4 : 2);
  };
  Matmul m;
  m.c_type = g.c_type, m.a_type = g.a_type, m.b_type = g.b_type;
  m.a = at(g.a, g.a_type, begin * g.lda);
  m.lda = g.lda;
  m.n = g.n;
  m.round_to = g.round_to;
  m.accumulate = g.accumulate;
  if (g.sums_rows) {
    m.c = const_cast<char*>(at(g.c, g.c_type, group * g.k * g.n));
    m.b = at(g.b, g.b_type, begin * g.ldb);
    m.m = g.k, m.k = rows;
    m.ldc = g.n, m.ldb = g.ldb;
    m.a_transposed = true;
  } else {
    m.c = const_cast<char*>(at(g.c, g.c_type, begin * g.ldc));
    m.b = at(g.b, g.b_type, group * g.k * g.n);
    m.m = rows, m.k = g.k;
    m.ldc = g.ldc, m.ldb = g.b_transposed ? g.k : g.n;
    m.b_transposed = g.b_transposed;
  }
  return m;
}

int64_t rows_of(const GroupedMatmul& g, int64_t group) { return g.offsets[group + 1] - g.offsets[group]; }

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Workspace bytes that one worker needs for a group of few rows.
HWS_SMALL int64_t own_bytes(const GroupedMatmul& g) {
  return aligned(matmul_workspace_bytes(product_of(g, 0, 0, g.rows < kFewRows ? g.rows : kFewRows), 1));
}

}  // namespace

void grouped_matmul(const GroupedMatmul& args, Stream& stream) {
  if (args.n <= 0 || args.k <= 0) return;
  for (int64_t group = 0; group < args.groups; ++group) {
    const int64_t rows = rows_of(args, group);
    if (rows <= kFewRows) continue;
    Matmul m = product_of(args, group, args.offsets[group], rows);
    m.workspace = args.workspace;
    matmul(m, stream);
  }
  const int64_t bytes = own_bytes(args);
  parallel(stream, args.groups, [&](int64_t group, int32_t worker) {
    const int64_t rows = rows_of(args, group);
    if (rows > kFewRows || (rows == 0 && !args.sums_rows)) return;
    Stream own = alone();
    Matmul m = product_of(args, group, args.offsets[group], rows);
    m.workspace = static_cast<char*>(args.workspace) + worker * bytes;
    matmul(m, own);
  });
}

HWS_SMALL int64_t grouped_matmul_workspace_bytes(const GroupedMatmul& args, int32_t num_workers) {
  if (args.n <= 0 || args.k <= 0) return 0;
  const int64_t of_all = matmul_workspace_bytes(product_of(args, 0, 0, args.rows), num_workers);
  const int64_t of_few = own_bytes(args) * num_workers;
  return of_all > of_few ? of_all : of_few;
}

}  // namespace hawser::kernels::HWS_LEVEL
