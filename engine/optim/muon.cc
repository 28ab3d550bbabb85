#include "engine/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "engine/optim/grad_norm.h"
#include "engine/optim/update.h"

namespace hawser::optim {
namespace {

constexpr int kSteps = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

StateTypes states(const OptimizerConfig&, DType state) { return {state}; }

/// `rows` rows of n elements: from element `begin` of a matrix on, dense from element `at` of a buffer on.
struct PieceRows {
  int64_t begin = 0, at = 0, rows = 1, n = 0;
};

/// Calls use(rows) for the at most three parts of a piece: the rest of a row, full rows, the start of a row.
template <typename Use>
void each_part(const MatrixPiece& p, int64_t columns, Use use) {
  if (p.width == 0 || p.width == columns) return use(PieceRows{p.corner + p.begin, p.at, 1, p.n});
  int64_t done = 0;
  const auto take = [&](int64_t rows, int64_t n) {
    if (rows * n == 0) return;
    const int64_t first = p.begin + done;
    use(PieceRows{p.corner + first / p.width * columns + first % p.width, p.at + done, rows, n});
    done += rows * n;
  };
  take(1, std::min(p.n, (p.width - p.begin % p.width) % p.width));
  take((p.n - done) / p.width, p.width);
  take(1, p.n - done);
}

/// The arrays and products of one call.
class NewtonSchulz {
 public:
  NewtonSchulz(const Orthogonal& call, const kernels::KernelTable& kernels, nn::Region* workspace,
               Stream& stream)
      : call_(call),
        kernels_(kernels),
        workspace_(*workspace),
        stream_(stream),
        n_(call.rows * call.columns),
        side_(std::min(call.rows, call.columns)),
        wide_(static_cast<float*>(workspace->take(std::max(n_, side_ * side_) * 4))),
        x_(workspace->take(dtype_bytes(call.type, n_))),
        gram_(workspace->take(dtype_bytes(call.type, side_ * side_))),
        factor_(workspace->take(dtype_bytes(call.type, side_ * side_))) {}

  void run() {
    for (const MatrixPiece& piece : call_.pieces)
      each_part(piece, call_.columns, [&](const PieceRows& p) {
        kernels_.convert({wide_ + p.begin, call_.from + p.at, DType::kF32, DType::kF32, p.n, false, p.rows,
                          call_.columns, p.n},
                         stream_);
      });
    normalise();
    for (int step = 0; step < kSteps; ++step) improve();
    for (const MatrixPiece& piece : call_.copies)
      each_part(piece, call_.columns, [&](const PieceRows& p) {
        kernels_.convert({call_.to + p.at, element(x_, p.begin), DType::kF32, call_.type, p.n, false, p.rows,
                          p.n, call_.columns},
                         stream_);
      });
  }

 private:
  void normalise() {
    const nn::RegionScope scope(workspace_);
    auto* const sums = static_cast<ExactSum*>(workspace_.take(kAddSquaresWorkspaceBytes));
    add_squares(call_.squares, wide_, DType::kF32, n_, sums, kernels_, stream_);
    kernels_.axpby({x_, wide_, nullptr, call_.type, n_, 1.0f, 0.0f, call_.squares}, stream_);
  }

  /// The product on the shorter side is X X^T for a wide matrix, and X^T X for a tall one.
  void improve() {
    const bool tall = call_.rows > call_.columns;
    const int64_t r = call_.rows, c = call_.columns, s = side_;
    kernels::Matmul gram;
    gram.a = gram.b = x_;
    gram.m = gram.n = s, gram.k = std::max(r, c);
    gram.lda = gram.ldb = c;
    gram.a_transposed = tall, gram.b_transposed = !tall;
    multiply(gram, gram_, call_.type, s);
    kernels::Matmul square;
    square.a = square.b = gram_;
    square.m = square.n = square.k = square.lda = square.ldb = s;
    multiply(square, wide_, DType::kF32, s);
    kernels_.axpby({factor_, wide_, gram_, call_.type, s * s, kC, kB}, stream_);
    kernels::Matmul product;
    product.a = tall ? x_ : factor_, product.b = tall ? factor_ : x_;
    product.m = r, product.n = c, product.k = s;
    product.lda = tall ? c : s, product.ldb = c;
    multiply(product, wide_, DType::kF32, c);
    kernels_.axpby({x_, wide_, x_, call_.type, n_, 1.0f, kA}, stream_);
  }

  void multiply(kernels::Matmul m, void* to, DType type, int64_t stride) {
    const nn::RegionScope scope(workspace_);
    m.c = to, m.c_type = type, m.ldc = stride;
    m.a_type = m.b_type = m.round_to = call_.type;
    m.workspace = workspace_.take(kernels_.matmul_workspace_bytes(m, stream_.num_workers));
    kernels_.matmul(m, stream_);
  }

  const void* element(const void* array, int64_t i) const {
    return static_cast<const char*>(array) + dtype_bytes(call_.type, i);
  }

  const Orthogonal& call_;
  const kernels::KernelTable& kernels_;
  nn::Region& workspace_;
  Stream& stream_;
  const int64_t n_, side_;
  float* const wide_;  // the matrix, then products, in f32
  void* const x_;
  void* const gram_;
  void* const factor_;
};

}  // namespace

const UpdateRule kMuon = {"muon", UpdateUnit::kMatrices, states, nullptr, nullptr};

void orthogonalise(const Orthogonal& call, const kernels::KernelTable& kernels, nn::Region* workspace,
                   Stream& stream) {
  const nn::RegionScope scope(*workspace);
  NewtonSchulz(call, kernels, workspace, stream).run();
}

double muon_scale(const OptimizerConfig& config, int64_t rows, int64_t columns) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(columns);
  if (config.muon_scale == MuonScale::kSpectral) return std::sqrt(std::max(1.0, r / c));
  return 0.2 * std::sqrt(std::max(r, c));
}

}  // namespace hawser::optim
