#include "engine/nn/kernel_work.h"

#include <algorithm>

namespace hawser::nn {
namespace {

/// Returns the sum of max(0, first + i) over i from 0 to `rows` - 1.
int64_t sum_of_positive(int64_t first, int64_t rows) {
  const int64_t skipped = std::clamp<int64_t>(-first, 0, rows), last = first + rows - 1;
  return skipped == rows ? 0 : (first + skipped + last) * (rows - skipped) / 2;
}

/// Returns the number of (query, key) pairs under the causal mask and the window, over batch and heads. A
/// query may see none of the keys. The query at position p sees the existing keys up to p, with a window
/// only those after p - window.
double visible_pairs(const kernels::AttentionShape& s) {
  const int64_t ahead = s.q_offset - s.k_offset;  // of the first query, relative to the first key
  const auto up_to = [&](int64_t shift) {         // pairs with key index <= query index + shift
    return sum_of_positive(shift + 1, s.seq_q) - sum_of_positive(shift + 1 - s.seq_k, s.seq_q);
  };
  const int64_t pairs = up_to(ahead) - (s.window > 0 ? up_to(ahead - s.window) : 0);
  return static_cast<double>(pairs) * static_cast<double>(s.batch * s.heads);
}

/// Return the bytes of q or its gradient, of o or its gradient, and of k and v, with elements of the given
/// type.
double query_bytes(const kernels::AttentionShape& s, DType type) {
  return static_cast<double>(s.batch * s.seq_q * s.heads * s.head_dim * dtype_bytes(type));
}
double out_bytes(const kernels::AttentionShape& s, DType type) {
  return static_cast<double>(s.batch * s.seq_q * s.heads * s.v_dim() * dtype_bytes(type));
}
double key_value_bytes(const kernels::AttentionShape& s, DType type) {
  return static_cast<double>(s.batch * s.seq_k * s.kv_heads * (s.head_dim + s.v_dim()) * dtype_bytes(type));
}

Kernel kernel_of(const kernels::Matmul& m) {
  if (m.epilogue == kernels::Epilogue::kGeluTanh) return Kernel::kMatmulGelu;
  if (m.epilogue == kernels::Epilogue::kGeluTanhGradient) return Kernel::kMatmulGeluBackward;
  return m.bias_gradient != nullptr ? Kernel::kMatmulBiasGradient : Kernel::kMatmul;
}

KernelWork work(Kernel kernel, DType type, int64_t bytes, double flops = 0) {
  KernelWork w;
  w.kernel = kernel;
  w.type = type;
  w.flops = flops;
  w.bytes = static_cast<double>(bytes);
  return w;
}

}  // namespace

const char* kernel_name(Kernel kernel) {
  static constexpr const char* kNames[] = {"matmul_gelu", "matmul_gelu_backward", "matmul_bias_gradient",
#define HWS_NAME(name, Args) #name,
                                           HWS_EACH_KERNEL(HWS_NAME)
#undef HWS_NAME
  };
  return kNames[static_cast<uint8_t>(kernel)];
}

KernelCalls calls_of(const KernelWork& w) {
  return {kernel_name(w.kernel), w.type,   w.m,        w.n, w.k,     w.a_transposed,
          w.b_transposed,        w.length, w.head_dim, 1,   w.flops, w.bytes};
}

/// Besides the result, a fused GELU writes or reads its input. Operands that the product rounds to fp8 are
/// written and read as codes.
KernelWork work_of(const kernels::Matmul& m) {
  const bool twice = m.accumulate || m.epilogue != kernels::Epilogue::kNone;
  KernelWork w = work(kernel_of(m), kernels::product_type(m),
                      m.m * m.k * dtype_bytes(m.a_type) + m.k * m.n * dtype_bytes(m.b_type) +
                          m.m * m.n * dtype_bytes(m.c_type) * (twice ? 2 : 1),
                      2.0 * static_cast<double>(m.m) * static_cast<double>(m.n) * static_cast<double>(m.k));
  if (m.a_fp8.on()) w.bytes += 2.0 * static_cast<double>((m.m + m.n) * m.k);
  w.m = m.m, w.n = m.n, w.k = m.k;
  w.a_transposed = m.a_transposed, w.b_transposed = m.b_transposed;
  return w;
}

/// Counts 2 operations per pair and element: key elements for scores, value elements for the weighted sum. A
/// merge also reads o.
KernelWork work_of(const kernels::AttentionForward& a) {
  KernelWork w = work(Kernel::kAttentionForward, product_type(a.s), 0,
                      2.0 * visible_pairs(a.s) * static_cast<double>(a.s.head_dim + a.s.v_dim()));
  w.length = a.s.seq_k, w.head_dim = a.s.head_dim;
  const DType out = a.f32_out || a.merge ? DType::kF32 : a.s.type;
  w.bytes =
      query_bytes(a.s, a.s.type) + out_bytes(a.s, out) * (a.merge ? 2 : 1) + key_value_bytes(a.s, a.s.type);
  return w;
}
/// Counts 6 operations per pair and key element (recomputed scores, dq, dk), 4 per pair and value element.
/// Gradients that accumulate are also read.
KernelWork work_of(const kernels::AttentionBackward& a) {
  KernelWork w = work(Kernel::kAttentionBackward, product_type(a.s), 0,
                      visible_pairs(a.s) * static_cast<double>(6 * a.s.head_dim + 4 * a.s.v_dim()));
  w.length = a.s.seq_k, w.head_dim = a.s.head_dim;
  const DType out = kernels::has_f32_gradients(a) ? DType::kF32 : a.s.type;
  w.bytes = query_bytes(a.s, a.s.type) + 2 * out_bytes(a.s, a.s.type) + key_value_bytes(a.s, a.s.type) +
            query_bytes(a.s, out) * (a.accumulate_q ? 2 : 1) +
            key_value_bytes(a.s, out) * (a.accumulate_kv ? 2 : 1);
  return w;
}

/// Output elements are read and written; the backward reads two arrays of them.
KernelWork work_of(const kernels::SinkForward& f) {
  const kernels::SinkRows& s = f.s;
  return work(Kernel::kSinkForward, s.type,
              s.batch * s.seq * s.heads * (2 * s.value_dim * dtype_bytes(s.type) + 8));
}
KernelWork work_of(const kernels::SinkBackward& b) {
  const kernels::SinkRows& s = b.s;
  return work(Kernel::kSinkBackward, s.type,
              s.batch * s.seq * (s.heads * (2 * s.value_dim * dtype_bytes(s.type) + 4) + 4 * b.columns));
}

KernelWork work_of(const kernels::NormForward& n) {
  const int64_t sum =
      n.residual.y != nullptr ? dtype_bytes(n.x_type) + dtype_bytes(n.residual.branch_type) : 0;
  return work(Kernel::kNormForward, n.x_type,
              n.rows * n.groups * n.d * (dtype_bytes(n.y_type) + dtype_bytes(n.x_type) + sum));
}
KernelWork work_of(const kernels::NormBackward& n) {
  const int64_t dx = dtype_bytes(n.dx_type) * (n.dx_accumulate ? 2 : 1);
  const int64_t y = (n.y != nullptr ? dtype_bytes(n.y_type) : 0) + (n.rounded != nullptr ? 2 : 0);
  return work(Kernel::kNormBackward, n.x_type,
              n.rows * n.groups * n.d * (dx + y + dtype_bytes(n.dy_type) + dtype_bytes(n.x_type)));
}
KernelWork work_of(const kernels::ResidualForward& r) {
  return work(Kernel::kResidualForward, DType::kF32,
              r.rows * r.d * (2 * dtype_bytes(r.type) + dtype_bytes(r.branch_type)));
}
KernelWork work_of(const kernels::ResidualBackward& r) {
  return work(Kernel::kResidualBackward, DType::kF32, r.rows * r.d * (4 + dtype_bytes(r.branch_type)));
}
KernelWork work_of(const kernels::ActivationForward& a) {
  return work(Kernel::kActivationForward, a.type, a.rows * a.f * dtype_bytes(a.type) * (a.gated ? 3 : 2));
}
KernelWork work_of(const kernels::ActivationBackward& a) {
  const int64_t arrays = (a.gated ? 5 : 3) + (a.y != nullptr ? 1 : 0);
  return work(Kernel::kActivationBackward, a.type, a.rows * a.f * dtype_bytes(a.type) * arrays);
}
KernelWork work_of(const kernels::Rope& r) {
  return work(Kernel::kRope, r.type, 2 * r.rows * r.heads * r.d * dtype_bytes(r.type));
}
KernelWork work_of(const kernels::EmbeddingForward& e) {
  const int64_t tables = e.positions_weight != nullptr ? 2 : 1;
  return work(Kernel::kEmbeddingForward, e.weight_type,
              e.rows * e.d * (dtype_bytes(e.x_type) + tables * dtype_bytes(e.weight_type)));
}
/// Without `accumulate`, the kernel writes the full table.
KernelWork work_of(const kernels::EmbeddingBackward& e) {
  return work(Kernel::kEmbeddingBackward, DType::kF32,
              4 * e.d * (e.accumulate ? 3 * e.rows : e.rows + e.table_rows));
}
/// Bytes of the ids and log-probabilities of a teacher.
int64_t teacher_bytes(const kernels::CrossEntropy& c) { return 8 * c.rows * c.teacher.top; }
KernelWork work_of(const kernels::CrossEntropy& c) {
  const int64_t passes = c.backward ? 2 : 1;
  return work(Kernel::kCrossEntropy, c.type,
              c.rows * c.vocab * dtype_bytes(c.type) * passes + teacher_bytes(c));
}
KernelWork work_of(const kernels::CrossEntropyStatistics& s) {
  return work(Kernel::kCrossEntropyStatistics, s.own.type,
              s.own.rows * s.own.vocab * dtype_bytes(s.own.type) + teacher_bytes(s.own));
}
KernelWork work_of(const kernels::CrossEntropyDivided& d) {
  const int64_t passes = d.own.backward ? 2 : 1;
  return work(Kernel::kCrossEntropyDivided, d.own.type,
              d.own.rows * d.own.vocab * dtype_bytes(d.own.type) * passes + teacher_bytes(d.own));
}
KernelWork work_of(const kernels::SoftCap& s) { return work(Kernel::kSoftCap, DType::kF32, 8 * s.n); }
KernelWork work_of(const kernels::ColumnSum& s) {
  return work(Kernel::kColumnSum, s.type, s.rows * s.n * dtype_bytes(s.type));
}
KernelWork work_of(const kernels::SumOfSquares& s) {
  return work(Kernel::kSumOfSquares, s.type, dtype_bytes(s.type) * s.n);
}
KernelWork work_of(const kernels::Add& a) { return work(Kernel::kAdd, DType::kF32, 12 * a.n); }
KernelWork work_of(const kernels::Convert& c) {
  return work(Kernel::kConvert, c.y_type,
              c.rows * c.n * (dtype_bytes(c.y_type) * (c.accumulate ? 2 : 1) + dtype_bytes(c.x_type)));
}
KernelWork work_of(const kernels::Nf4Decode& d) {
  return work(Kernel::kNf4Decode, d.y_type, dtype_bytes(DType::kNf4, d.n) + dtype_bytes(d.y_type, d.n));
}
KernelWork work_of(const kernels::RowSquares& s) {
  return work(Kernel::kRowSquares, s.type, s.rows * s.n * (dtype_bytes(s.type) + 4));
}
KernelWork work_of(const kernels::ScaleColumns& s) {
  return work(Kernel::kScaleColumns, s.y_type,
              s.rows * s.n * (dtype_bytes(s.y_type) + dtype_bytes(s.x_type)));
}
KernelWork work_of(const kernels::ColumnDot& d) {
  return work(Kernel::kColumnDot, d.dy_type, d.rows * d.n * (dtype_bytes(d.dy_type) + 4));
}
KernelWork work_of(const kernels::OrderedSum& s) {
  return work(Kernel::kOrderedSum, s.in_type,
              s.members * dtype_bytes(s.in_type, s.n) + s.n * (s.accumulate ? 8 : 4));
}
KernelWork work_of(const kernels::BlockEncode& e) {
  return work(Kernel::kBlockEncode, e.type, dtype_bytes(e.type, e.n) + dtype_bytes(e.x_type, e.n));
}
KernelWork work_of(const kernels::BlockDecode& d) {
  return work(Kernel::kBlockDecode, d.type, dtype_bytes(d.type, d.n) + dtype_bytes(d.y_type, d.n));
}
KernelWork work_of(const kernels::Fp8Encode& e) {
  return work(Kernel::kFp8Encode, e.x_type, e.rows * (dtype_bytes(e.type, e.n) + dtype_bytes(e.x_type, e.n)));
}
KernelWork work_of(const kernels::Fp8Decode& d) {
  return work(Kernel::kFp8Decode, d.y_type, d.rows * (dtype_bytes(d.type, d.n) + dtype_bytes(d.y_type, d.n)));
}
KernelWork work_of(const kernels::Fp8Maximum& m) {
  return work(Kernel::kFp8Maximum, m.x_type, m.rows * m.n * dtype_bytes(m.x_type));
}
KernelWork work_of(const kernels::Fp8Round& r) {
  return work(Kernel::kFp8Round, r.x_type, r.rows * r.n * (dtype_bytes(r.x_type) + 2));
}
/// The kernel reads and writes the weight and both moments, reads the gradient and writes the bf16 copy.
KernelWork work_of(const kernels::AdamW& a) {
  return work(Kernel::kAdamW, DType::kF32, a.n * (a.copy != nullptr ? 30 : 28));
}
KernelWork work_of(const kernels::AdamW8& a) {
  return work(Kernel::kAdamW8, DType::kF32,
              a.n * (a.copy != nullptr ? 14 : 12) + 4 * dtype_bytes(DType::kS8Block, a.n));
}
KernelWork work_of(const kernels::Sgd& s) {
  return work(Kernel::kSgd, DType::kF32,
              s.n * (12 + (s.buf != nullptr ? 8 : 0) + (s.copy != nullptr ? 2 : 0)));
}
KernelWork work_of(const kernels::Lion& l) {
  return work(Kernel::kLion, DType::kF32, l.n * (l.copy != nullptr ? 22 : 20));
}
KernelWork work_of(const kernels::GroupedMatmul& m) {
  const bool uses_weights = m.rows > 0 || m.sums_rows;
  const int64_t weights =
      uses_weights ? m.groups * m.n * m.k * dtype_bytes(m.sums_rows ? m.c_type : m.b_type) : 0;
  const int64_t rows =
      m.rows * (m.k * dtype_bytes(m.a_type) + m.n * dtype_bytes(m.sums_rows ? m.b_type : m.c_type));
  KernelWork w =
      work(Kernel::kGroupedMatmul, kernels::product_type(m), weights + rows,
           2.0 * static_cast<double>(m.rows) * static_cast<double>(m.n) * static_cast<double>(m.k));
  w.m = m.rows, w.n = m.n, w.k = m.k;
  w.a_transposed = m.sums_rows, w.b_transposed = m.b_transposed;
  return w;
}
KernelWork work_of(const kernels::ExpertActivationForward& a) {
  return work(Kernel::kExpertActivationForward, a.type,
              a.rows * a.f * dtype_bytes(a.type) * (a.gated ? 3 : 2));
}
KernelWork work_of(const kernels::ExpertActivationBackward& a) {
  return work(Kernel::kExpertActivationBackward, a.type,
              a.rows * a.f * dtype_bytes(a.type) * (a.gated ? 6 : 4));
}
KernelWork work_of(const kernels::ExpertBias& b) {
  return work(Kernel::kExpertBias, b.s.type, 2 * b.s.rows * b.s.n * dtype_bytes(b.s.type));
}
KernelWork work_of(const kernels::ExpertBiasSum& b) {
  return work(Kernel::kExpertBiasSum, b.s.type,
              b.s.rows * b.s.n * dtype_bytes(b.s.type) + 4 * b.total * b.s.n);
}
KernelWork work_of(const kernels::SpreadWeights& w) {
  return work(Kernel::kSpreadWeights, DType::kF32, 4 * w.s.rows * (w.s.experts + 3 * w.s.top_k));
}
KernelWork work_of(const kernels::AddChosen& a) {
  return work(Kernel::kAddChosen, DType::kF32, 20 * a.s.rows * a.s.top_k);
}
KernelWork work_of(const kernels::RouterForward& r) {
  return work(Kernel::kRouterForward, DType::kF32, 4 * r.shape.rows * (r.shape.experts + 2 * r.shape.top_k));
}
KernelWork work_of(const kernels::RouterStatistics& s) {
  return work(Kernel::kRouterStatistics, DType::kF32, 4 * s.shape.rows * (s.shape.experts + s.shape.top_k));
}
KernelWork work_of(const kernels::RouterTally& t) {
  return work(Kernel::kRouterTally, DType::kF32, 4 * t.batch * kernels::statistics_width(t.shape.experts));
}
KernelWork work_of(const kernels::RouterBackward& r) {
  return work(Kernel::kRouterBackward, DType::kF32,
              4 * r.shape.rows * (2 * r.shape.experts + 2 * r.shape.top_k));
}
KernelWork work_of(const kernels::RouterBalance& b) {
  return work(Kernel::kRouterBalance, DType::kF32, 8 * b.experts + 8 * b.count);
}
KernelWork work_of(const kernels::GroupRows& g) {
  return work(Kernel::kGroupRows, DType::kF32, 12 * g.rows * g.top_k);
}
KernelWork work_of(const kernels::GatherRows& g) {
  return work(Kernel::kGatherRows, g.type, 2 * g.rows * g.d * dtype_bytes(g.type));
}
KernelWork work_of(const kernels::CombineRows& c) {
  return work(Kernel::kCombineRows, DType::kF32, 4 * c.rows * c.d * (c.top_k + (c.accumulate ? 2 : 1)));
}
KernelWork work_of(const kernels::LatentKeys& k) {
  return work(Kernel::kLatentKeys, k.s.type,
              k.s.rows * k.s.heads * (2 * k.s.up_head() + 2 * k.s.shared) * dtype_bytes(k.s.type));
}
KernelWork work_of(const kernels::LatentKeysBackward& k) {
  return work(Kernel::kLatentKeysBackward, k.s.type,
              k.s.rows * (k.s.heads * (2 * k.s.up_head() + k.s.shared) + k.s.shared) * dtype_bytes(k.s.type));
}
KernelWork work_of(const kernels::AdamWBf16& a) { return work(Kernel::kAdamWBf16, DType::kBf16, 14 * a.n); }
KernelWork work_of(const kernels::MuonMomentum& m) {
  return work(Kernel::kMuonMomentum, DType::kF32, m.n * 16);
}
KernelWork work_of(const kernels::Axpby& a) {
  return work(Kernel::kAxpby, a.type, a.n * (4 + dtype_bytes(a.type) * (a.y != nullptr ? 2 : 1)));
}
KernelWork work_of(const kernels::MuonUpdate& m) {
  return work(Kernel::kMuonUpdate, DType::kF32, m.n * (m.copy != nullptr ? 14 : 12));
}
KernelWork work_of(const kernels::LionBf16& l) { return work(Kernel::kLionBf16, DType::kBf16, l.n * 10); }
KernelWork work_of(const kernels::SgdBf16& s) {
  return work(Kernel::kSgdBf16, DType::kBf16, s.n * (s.buf != nullptr ? 10 : 6));
}

}  // namespace hawser::nn
