// The residual connection x + dropout(branch) and its backward, which recomputes the mask instead of saving
// it.
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/residual_row.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Calls row(r, mask) for all rows.
template <class Row>
void each_row(int64_t rows, int64_t d, Stream& stream, const Row& row) {
  const int64_t rows_per_task = d > 0 && d < 16384 ? 16384 / d : 1;
  parallel_ranges(stream, rows, rows_per_task, [&](int64_t begin, int64_t end) {
    RowMask mask;
    for (int64_t r = begin; r < end; ++r) row(r, mask);
  });
}

/// Computes a row without a branch: dropout(x).
template <class X>
void drop_row(const ResidualForward& a, int64_t r, RowMask& mask) {
  const int64_t begin = r * a.d;
  const X* x = static_cast<const X*>(a.x) + begin;
  X* y = static_cast<X*>(a.y) + begin;
  each_piece(a.dropout, r, a.d, a.seq, mask,
             [&](int64_t j, int n, vf keep) { store_n(y + j, vmul(load_n(x + j, n), keep), n); });
}

template <class T>
void backward_row(const ResidualBackward& a, int64_t r, RowMask& mask) {
  const int64_t begin = r * a.d;
  T* dbranch = static_cast<T*>(a.dbranch) + begin;
  each_piece(a.dropout, r, a.d, a.seq, mask, [&](int64_t j, int n, vf keep) {
    store_n(dbranch + j, vmul(vload_n(a.dy + begin + j, n), keep), n);
  });
}

}  // namespace

void residual_forward(const ResidualForward& args, Stream& stream) {
  const auto dropped = args.type == DType::kBf16 ? drop_row<uint16_t> : drop_row<float>;
  const auto row = args.branch == nullptr ? dropped : residual_row_of(args);
  each_row(args.rows, args.d, stream, [&](int64_t r, RowMask& mask) { row(args, r, mask); });
}

void residual_backward(const ResidualBackward& args, Stream& stream) {
  with_element(args.branch_type, [&](auto element) {
    each_row(args.rows, args.d, stream,
             [&](int64_t r, RowMask& mask) { backward_row<decltype(element)>(args, r, mask); });
  });
}

}  // namespace hawser::kernels::HWS_LEVEL
