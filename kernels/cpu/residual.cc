// x + dropout(branch) and its backward, which makes the mask again instead of keeping it.
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/parallel.h"
#include HWS_SIMD

namespace hawser::kernels::HWS_LEVEL {
namespace {

inline int64_t rows_per_task(int64_t d) { return d > 0 && d < 16384 ? 16384 / d : 1; }

/// Calls body(row, column, n, keep) for pieces of at most kLanes columns; keep holds their multipliers (1
/// without dropout).
template <class Body>
void each_piece(const Dropout& dropout, int64_t rows, int64_t d, int64_t seq, Stream& stream,
                const Body& body) {
  parallel_ranges(stream, rows, rows_per_task(d), [&](int64_t begin, int64_t end) {
    float mask[kDropoutFeatures];
    for (int i = 0; i < kDropoutFeatures; ++i) mask[i] = 1.0f;
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t j0 = 0; j0 < d; j0 += kDropoutFeatures) {
        if (dropout.p > 0.0f) {
          dropout_mask(mask, dropout.p, dropout.key, dropout.samples[r / seq], static_cast<uint64_t>(r % seq),
                       static_cast<uint64_t>(j0 / 4));
        }
        const int64_t features = d - j0 < kDropoutFeatures ? d - j0 : kDropoutFeatures;
        for (int64_t j = 0; j < features; j += kLanes) {
          const int n = features - j < kLanes ? static_cast<int>(features - j) : kLanes;
          body(r, j0 + j, n, vload(mask + j));
        }
      }
    }
  });
}

template <class T>
void forward_typed(const ResidualForward& args, Stream& stream) {
  const T* branch = static_cast<const T*>(args.branch);
  each_piece(args.dropout, args.rows, args.d, args.seq, stream, [&](int64_t r, int64_t j, int n, vf keep) {
    const int64_t at = r * args.d + j;
    vstore_n(args.y + at, vadd(vload_n(args.x + at, n), vmul(load_n(branch + at, n), keep)), n);
  });
}

template <class T>
void backward_typed(const ResidualBackward& args, Stream& stream) {
  T* dbranch = static_cast<T*>(args.dbranch);
  each_piece(args.dropout, args.rows, args.d, args.seq, stream, [&](int64_t r, int64_t j, int n, vf keep) {
    const int64_t at = r * args.d + j;
    store_n(dbranch + at, vmul(vload_n(args.dy + at, n), keep), n);
  });
}

}  // namespace

void residual_forward(const ResidualForward& args, Stream& stream) {
  if (args.branch == nullptr) {
    each_piece(args.dropout, args.rows, args.d, args.seq, stream, [&](int64_t r, int64_t j, int n, vf keep) {
      const int64_t at = r * args.d + j;
      vstore_n(args.y + at, vmul(vload_n(args.x + at, n), keep), n);
    });
  } else if (args.branch_type == DType::kBf16) {
    forward_typed<uint16_t>(args, stream);
  } else {
    forward_typed<float>(args, stream);
  }
}

void residual_backward(const ResidualBackward& args, Stream& stream) {
  if (args.branch_type == DType::kBf16) {
    backward_typed<uint16_t>(args, stream);
  } else {
    backward_typed<float>(args, stream);
  }
}

}  // namespace hawser::kernels::HWS_LEVEL
