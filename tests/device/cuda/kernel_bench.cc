// Measures how near kernels on a GPU come to the limits of its memory and its matrix units: each is compared
// with a copy, or with the best of three square products, measured in the same run. It prints one JSON line
// for each kernel (tests/gpu.sh makes a table of them).
//
//   bench_gpu_kernels [--list | FAMILY...]   without arguments: all
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <random>
#include <string>

#include "tests/device/cuda/bench_device.h"

namespace hawser::testing {
namespace {

using namespace kernels;

Matmul product(void* c, const void* a, const void* b, int64_t m, int64_t n, int64_t k, bool b_transposed) {
  Matmul args;
  args.c = c, args.a = a, args.b = b;
  args.c_type = args.a_type = args.b_type = DType::kBf16;
  args.m = m, args.n = n, args.k = k;
  args.lda = k, args.ldb = b_transposed ? k : n, args.ldc = n;
  args.b_transposed = b_transposed;
  return args;
}

void products(Bench& bench) {
  struct Case {
    const char* name;
    int64_t m, n, k;
  };
  for (const Case c : {Case{"matmul 8192 x 8192 x 8192 bf16", 8192, 8192, 8192},
                       Case{"matmul qkv of gpt2-124m, 65536 rows", 65536, 2304, 768},
                       Case{"matmul down of gpt2-124m, 65536 rows", 65536, 768, 3072},
                       Case{"matmul head of gpt2-124m, 8192 rows", 8192, 50304, 768}}) {
    Matmul args = product(bench.bytes(c.m * c.n * 2), bench.values(c.m * c.k, DType::kBf16),
                          bench.values(c.n * c.k, DType::kBf16), c.m, c.n, c.k, true);
    args.workspace = bench.bytes(bench.table().matmul_workspace_bytes(args, bench.stream().num_workers));
    bench.compute_bound(c.name,
                        2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k),
                        [&] { bench.table().matmul(args, bench.stream()); });
  }
}

/// Measures the MLP of GPT-2 124M: each product with its epilogue, and the same work in separate kernels.
void epilogues(Bench& bench) {
  constexpr int64_t kRows = 65536, kWidth = 768, kInner = 3072;
  constexpr double kOperations = 2.0 * kRows * kWidth * kInner;
  void* const x = bench.values(kRows * kWidth, DType::kBf16);
  void* const w = bench.values(kWidth * kInner, DType::kBf16);
  char* const h = bench.bytes(kRows * kInner * 2);
  char* const a = bench.bytes(kRows * kInner * 2);
  auto* const dbias = reinterpret_cast<float*>(bench.bytes(kInner * 4));
  Matmul up = product(h, x, w, kRows, kInner, kWidth, true);
  Matmul down = product(a, x, w, kRows, kInner, kWidth, false);
  Matmul dw = product(bench.bytes(kWidth * kInner * 4), a, x, kInner, kWidth, kRows, false);
  dw.lda = kInner, dw.a_transposed = dw.accumulate = true, dw.c_type = DType::kF32;
  Matmul up_gelu = up, down_gelu = down, dw_bias = dw;
  up_gelu.c = a, up_gelu.aux = h, up_gelu.epilogue = Epilogue::kGeluTanh;
  down_gelu.aux = h, down_gelu.epilogue = Epilogue::kGeluTanhGradient;
  dw_bias.bias_gradient = dbias;
  for (Matmul* const m : {&up, &down, &dw, &up_gelu, &down_gelu, &dw_bias})
    m->workspace = bench.bytes(bench.table().matmul_workspace_bytes(*m, bench.stream().num_workers));
  const ActivationForward gelu = {a, h, DType::kBf16, kRows, kInner, Activation::kGeluTanh, false};
  const ActivationBackward slope = {a, a, h, DType::kBf16, kRows, kInner, Activation::kGeluTanh, false};
  ColumnSum sums = {dbias, a, DType::kBf16, kRows, kInner, kInner, true};
  sums.workspace = bench.bytes(bench.table().column_sum_workspace_bytes(sums, bench.stream().num_workers));
  const KernelTable& t = bench.table();
  Stream& stream = bench.stream();
  bench.compute_bound("matmul up + gelu", kOperations, [&] { t.matmul(up_gelu, stream); });
  bench.compute_bound("matmul up, gelu", kOperations, [&] {
    t.matmul(up, stream);
    t.activation_forward(gelu, stream);
  });
  bench.compute_bound("matmul d(down) + gelu backward", kOperations, [&] { t.matmul(down_gelu, stream); });
  bench.compute_bound("matmul d(down), gelu backward", kOperations, [&] {
    t.matmul(down, stream);
    t.activation_backward(slope, stream);
  });
  bench.compute_bound("matmul dw + bias gradient", kOperations, [&] { t.matmul(dw_bias, stream); });
  bench.compute_bound("matmul dw, bias gradient", kOperations, [&] {
    t.matmul(dw, stream);
    t.column_sum(sums, stream);
  });
}

void norms(Bench& bench) {
  constexpr int64_t kRows = 65536, kWidth = 4096;
  NormForward f;
  f.y = bench.bytes(kRows * kWidth * 2), f.x = bench.values(kRows * kWidth, DType::kF32);
  f.rstd = reinterpret_cast<float*>(bench.bytes(kRows * 4)), f.weight = bench.values(kWidth, DType::kF32);
  f.y_type = DType::kBf16, f.rows = kRows, f.d = f.y_stride = f.x_stride = kWidth;
  bench.memory_bound<&KernelTable::norm_forward>("rms_norm forward f32 -> bf16", f);
  NormBackward b;
  b.dx = bench.values(kRows * kWidth, DType::kF32),
  b.dweight = reinterpret_cast<float*>(bench.bytes(kWidth * 4));
  b.dy = f.y, b.dy_type = DType::kBf16, b.x = f.x, b.weight = f.weight, b.rstd = f.rstd;
  b.rows = kRows, b.d = b.dx_stride = b.dy_stride = b.x_stride = kWidth, b.dx_accumulate = true;
  b.workspace = bench.bytes(bench.table().norm_backward_workspace_bytes(b, bench.stream().num_workers));
  bench.memory_bound<&KernelTable::norm_backward>("rms_norm backward, residual added", b);
}

void element_wise(Bench& bench) {
  constexpr int64_t kRows = 16384, kWidth = 14336;
  ActivationForward swiglu;
  swiglu.y = bench.bytes(kRows * kWidth * 2), swiglu.h = bench.values(kRows * kWidth * 2, DType::kBf16);
  swiglu.type = DType::kBf16, swiglu.rows = kRows, swiglu.f = kWidth, swiglu.kind = Activation::kSilu;
  swiglu.gated = true;
  bench.memory_bound<&KernelTable::activation_forward>("swiglu forward bf16", swiglu);
  ActivationBackward back;
  back.dh = bench.bytes(kRows * kWidth * 4), back.dy = swiglu.y, back.h = swiglu.h, back.type = DType::kBf16;
  back.rows = kRows, back.f = kWidth, back.kind = Activation::kSilu, back.gated = true;
  bench.memory_bound<&KernelTable::activation_backward>("swiglu backward bf16", back);
}

void adamw(Bench& bench) {
  constexpr int64_t kN = 124439808;
  AdamW a;
  a.weight = static_cast<float*>(bench.values(kN, DType::kF32)), a.copy = bench.bytes(kN * 2);
  a.m = reinterpret_cast<float*>(bench.bytes(kN * 4)), a.v = reinterpret_cast<float*>(bench.bytes(kN * 4));
  a.grad = static_cast<float*>(bench.values(kN, DType::kF32)), a.n = kN;
  OptimizerScalars scalars;
  scalars.lr = 1e-4f;
  auto* const there = reinterpret_cast<OptimizerScalars*>(bench.bytes(sizeof scalars));
  device::check(bench.device(), bench.device().copy_to_device(there, &scalars, sizeof scalars, kCompute));
  device::check(bench.device(), bench.device().synchronize(kCompute));
  a.scalars = there;
  bench.memory_bound<&KernelTable::adamw>("adamw, 124M, bf16 copy", a);
}

/// The gradient of the embedding of GPT-2 124M. Of the indices, as of words, small ones are more frequent.
void look_up(Bench& bench) {
  constexpr int64_t kRows = 65536, kTable = 50304, kWidth = 768;
  std::vector<int32_t> index(kRows);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> logarithm(0, std::log(kTable));
  for (int32_t& i : index) i = static_cast<int32_t>(std::exp(logarithm(random))) - 1;
  auto* const there = reinterpret_cast<int32_t*>(bench.bytes(kRows * 4));
  bench.write(there, index);
  EmbeddingBackward e;
  e.dweight = reinterpret_cast<float*>(bench.bytes(kTable * kWidth * 4)), e.index = there;
  e.dx = static_cast<float*>(bench.values(kRows * kWidth, DType::kF32));
  e.rows = kRows, e.d = kWidth, e.table_rows = kTable;
  e.workspace = bench.bytes(bench.table().embedding_backward_workspace_bytes(e, bench.stream().num_workers));
  bench.memory_bound<&KernelTable::embedding_backward>("look-up gradient of gpt2-124m, 65536 rows", e);
}

/// Gradients in records of integers: encoded, decoded, and summed over 8 members.
void records(Bench& bench) {
  constexpr int64_t kN = int64_t{1} << 28, kMembers = 8;
  void* const x = bench.values(kN, DType::kF32);
  auto* const y = reinterpret_cast<float*>(bench.bytes(kN * 4));
  for (const DType type : {DType::kI8Block, DType::kI4Block}) {
    const std::string of = type == DType::kI8Block ? " int8" : " int4";
    const int64_t bytes = dtype_bytes(type, kN), part = kN / kMembers;
    char* const packed = bench.bytes(bytes);
    bench.memory_bound<&KernelTable::block_encode>(("encode" + of).c_str(),
                                                   BlockEncode{packed, type, x, DType::kF32, kN});
    bench.memory_bound<&KernelTable::block_decode>(("decode" + of).c_str(),
                                                   BlockDecode{y, DType::kF32, packed, type, kN});
    const void* in[kMembers];
    for (int64_t m = 0; m < kMembers; ++m) in[m] = packed + m * (bytes / kMembers);
    OrderedSum sum;
    sum.out = y, sum.in = in, sum.in_type = type, sum.members = kMembers, sum.n = part;
    bench.memory_bound<&KernelTable::ordered_sum>(("sum of 8" + of).c_str(), sum);
  }
}

/// Measures causal attention over fused q, k and v: half of the pairs of positions count.
void attention(Bench& bench) {
  struct Case {
    const char* name;
    int64_t batch, seq, heads, kv_heads, head_dim;
    float softcap = 0;  ///< if not 0, our own kernels run
  };
  for (const Case c : {Case{"attention gpt2-124m, 64 x 1024", 64, 1024, 12, 12, 64},
                       Case{"attention llama-3.1-8b, 1 x 8192", 1, 8192, 32, 8, 128},
                       Case{"attention llama-3.1-8b with a soft cap, 1 x 8192", 1, 8192, 32, 8, 128, 50},
                       Case{"attention gemma-2-9b, 1 x 8192", 1, 8192, 16, 8, 256, 50}}) {
    const int64_t rows = c.batch * c.seq, q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
    AttentionForward f;
    AttentionShape& s = f.s;
    s.type = DType::kBf16;
    s.batch = c.batch, s.seq_q = s.seq_k = s.kv_batch_rows = c.seq;
    s.heads = c.heads, s.kv_heads = c.kv_heads, s.head_dim = c.head_dim;
    s.q_stride = s.kv_stride = q_width + 2 * kv_width, s.o_stride = q_width;
    s.scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
    s.softcap = c.softcap;
    char* const qkv = static_cast<char*>(bench.values(rows * s.q_stride, DType::kBf16));
    f.q = qkv, f.k = qkv + q_width * 2, f.v = qkv + (q_width + kv_width) * 2;
    f.o = bench.bytes(rows * q_width * 2);
    f.lse = reinterpret_cast<float*>(bench.bytes(rows * c.heads * 4));
    f.workspace = bench.bytes(bench.table().attention_forward_workspace_bytes(f, bench.stream().num_workers));
    const double pairs = static_cast<double>(rows) * static_cast<double>(c.seq * c.heads * c.head_dim) / 2;
    bench.compute_bound((std::string(c.name) + ", forward").c_str(), 4 * pairs,
                        [&] { bench.table().attention_forward(f, bench.stream()); });
    AttentionBackward b;
    b.s = s;
    char* const dqkv = bench.bytes(rows * s.q_stride * 2);
    b.dq = dqkv, b.dk = dqkv + q_width * 2, b.dv = dqkv + (q_width + kv_width) * 2;
    b.dout = bench.values(rows * q_width, DType::kBf16);
    b.o = f.o, b.lse = f.lse, b.q = f.q, b.k = f.k, b.v = f.v;
    b.workspace =
        bench.bytes(bench.table().attention_backward_workspace_bytes(b, bench.stream().num_workers));
    bench.compute_bound((std::string(c.name) + ", backward").c_str(), 10 * pairs,
                        [&] { bench.table().attention_backward(b, bench.stream()); });
  }
}

/// Measures head and cross entropy, in chunks and with padding as in LmHeadLoss: logits, their gradient in
/// place, and the two products after them.
void head(Bench& bench) {
  constexpr int64_t kRows = 8192, kVocab = 50257, kStride = 50304, kColumns = kStride, kWidth = 768;
  char* const logits = bench.bytes(kRows * kStride * 2);
  void* const x = bench.values(kRows * kWidth, DType::kBf16);
  void* const weight = bench.values(kColumns * kWidth, DType::kBf16);
  Matmul forward = product(logits, x, weight, kRows, kColumns, kWidth, true);
  forward.ldc = kStride;
  Matmul dx = product(bench.bytes(kRows * kWidth * 2), logits, weight, kRows, kWidth, kColumns, false);
  dx.lda = kStride;
  Matmul dw = product(bench.bytes(kColumns * kWidth * 4), logits, x, kColumns, kWidth, kRows, false);
  dw.c_type = DType::kF32, dw.lda = kStride, dw.a_transposed = dw.accumulate = true;
  for (Matmul* const m : {&forward, &dx, &dw})
    m->workspace = bench.bytes(bench.table().matmul_workspace_bytes(*m, bench.stream().num_workers));
  CrossEntropy loss;
  loss.losses = reinterpret_cast<float*>(bench.bytes(kRows * 4));
  loss.logits = logits;
  loss.targets = reinterpret_cast<int32_t*>(bench.bytes(kRows * 4));  // every target is token 0
  loss.grad_scale = static_cast<float*>(bench.values(1, DType::kF32));
  loss.rows = kRows, loss.vocab = kVocab, loss.stride = kStride;
  loss.type = DType::kBf16, loss.backward = true;
  bench.table().matmul(forward, bench.stream());
  bench.memory_bound<&KernelTable::cross_entropy>("cross entropy, 8192 x 50257 bf16", loss);
  bench.compute_bound("head + cross entropy of gpt2-124m", 6.0 * kRows * kVocab * kWidth, [&] {
    bench.table().matmul(forward, bench.stream());
    bench.table().cross_entropy(loss, bench.stream());
    bench.table().matmul(dw, bench.stream());
    bench.table().matmul(dx, bench.stream());
  });
}

/// Measures the products of the up projection of Qwen3-30B-A3B's experts: 8,192 tokens choose 8 experts each,
/// and each of the 128 experts gets equally many rows.
void experts(Bench& bench) {
  constexpr int64_t kExperts = 128, kRows = 8192 * 8, kWidth = 2048, kInner = 2 * 768;
  constexpr double kOperations = 2.0 * kRows * kWidth * kInner;
  std::vector<int32_t> offsets(kExperts + 1);
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int32_t>(i * kRows / kExperts);
  auto* const there = reinterpret_cast<int32_t*>(bench.bytes(4 * (kExperts + 1)));
  bench.write(there, offsets);
  void* const x = bench.values(kRows * kWidth, DType::kBf16);
  void* const y = bench.values(kRows * kInner, DType::kBf16);
  void* const w = bench.values(kExperts * kWidth * kInner, DType::kBf16);
  GroupedMatmul up;
  up.offsets = there, up.groups = kExperts, up.rows = kRows;
  up.a_type = up.b_type = up.c_type = DType::kBf16;
  GroupedMatmul dx = up, dw = up;
  up.c = y, up.a = x, up.b = w, up.n = up.ldc = kInner, up.k = up.lda = kWidth, up.b_transposed = true;
  dx.c = x, dx.a = y, dx.b = w, dx.n = dx.ldc = kWidth, dx.k = dx.lda = kInner;
  dw.c = bench.bytes(kExperts * kWidth * kInner * 4), dw.c_type = DType::kF32;
  dw.a = y, dw.b = x, dw.k = dw.lda = kInner, dw.n = dw.ldb = kWidth, dw.sums_rows = dw.accumulate = true;
  const auto measure = [&](const char* name, const GroupedMatmul& args) {
    bench.compute_bound(name, kOperations, [&] { bench.table().grouped_matmul(args, bench.stream()); });
  };
  measure("experts up, 128 x 512 rows", up);
  measure("experts dx, 128 x 512 rows", dx);
  measure("experts dw, 128 x 512 rows", dw);
}

struct Family {
  std::string name;
  void (*run)(Bench&);
  bool deterministic = true;
};
const Family kFamilies[] = {{"products", products},   {"epilogues", epilogues},
                            {"attention", attention}, {"attention_any_order", attention, false},
                            {"head", head},           {"experts", experts},
                            {"norms", norms},         {"element_wise", element_wise},
                            {"adamw", adamw},         {"look_up", look_up},
                            {"records", records}};

/// Runs a family; its failure does not affect the other families. Returns true if it did not fail.
bool run(const Family& family) {
  try {
    Bench bench(family.deterministic);  // its memory is freed before the next family
    bench.measure_copy();
    family.run(bench);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu_kernels: %s: %s\n", family.name.c_str(), error.what());
    return false;
  }
}

int main_with(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // line buffering, so that a crash loses no line
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  if (wanted == std::vector<std::string>{"--list"}) {
    for (const Family& family : kFamilies) std::printf("%s\n", family.name.c_str());
    return 0;
  }
  bool well = true, known = wanted.empty();
  for (const Family& family : kFamilies) {
    if (!wanted.empty() && std::count(wanted.begin(), wanted.end(), family.name) == 0) continue;
    known = true;
    well = run(family) && well;
  }
  if (!known) std::fprintf(stderr, "bench_gpu_kernels: no family is called %s\n", wanted.front().c_str());
  return well && known ? 0 : 1;
}

}  // namespace
}  // namespace hawser::testing

int main(int argc, char** argv) { return hawser::testing::main_with(argc, argv); }
