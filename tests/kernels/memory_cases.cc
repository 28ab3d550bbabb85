#include "tests/kernels/memory_cases.h"

#include <algorithm>
#include <cstdlib>

#include "engine/device/cpu/host_memory.h"

namespace hawser::bench {
namespace {

using kernels::KernelTable;

/// The widths of a model, and the rows of a step.
struct Widths {
  int64_t rows, d, f, vocab, heads, kv_heads, head_dim;
};
constexpr Widths kGpt2 = {256, 768, 3072, 50257, 12, 12, 64};
constexpr Widths kQwen = {512, 896, 4864, 151936, 14, 2, 64};

int64_t size_of(DType type) { return type == DType::kF32 ? 4 : 2; }
const char* name_of(DType type) { return type == DType::kF32 ? "fp32" : "bf16"; }

/// Takes n values between -1 and 1, or between 0 and 1, from the pool.
void* values(Pool& pool, int64_t n, DType type, bool positive = false) {
  void* const p = pool.take(n * size_of(type));
  static uint32_t x = 1;
  for (int64_t i = 0; i < n; ++i) {
    x = x * 1664525 + 1013904223;
    float value = static_cast<float>(static_cast<int32_t>(x)) * 0x1p-31f;
    if (positive) value *= value;
    if (type == DType::kF32) {
      static_cast<float*>(p)[i] = value;
    } else {
      static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, value) >> 16);
    }
  }
  return p;
}
float* floats(Pool& pool, int64_t n, bool positive = false) {
  return static_cast<float*>(values(pool, n, DType::kF32, positive));
}

/// Makes the case of one kernel: as many calls as operands fit, each from make().
template <class Args, class Make>
MemoryCase repeat(void (*kernel)(const Args&, Stream&), Pool& pool, int64_t bytes, int64_t elements,
                  StreamShape plain, const Make& make) {
  MemoryCase c;
  c.bytes = bytes, c.elements = elements, c.plain = plain;
  pool.clear();
  for (int64_t used = 0; used == 0 || used + bytes <= kOperandBytes; used += bytes) {
    const Args args = make();
    c.calls.push_back([kernel, args](Stream& stream) { kernel(args, stream); });
  }
  return c;
}

MemoryCaseMaker norm_forward(const Widths& w, bool layer_norm, DType y) {
  return {std::string("norm_forward ") + (y == DType::kF32 ? "fp32" : "fp32 to bf16"),
          [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.rows * w.d;
            return repeat(table.norm_forward, pool, n * (4 + size_of(y)), n, {1, 1, 0}, [&] {
              kernels::NormForward a;
              a.x = floats(pool, n), a.y = values(pool, n, y), a.y_type = y;
              a.weight = floats(pool, w.d), a.rstd = floats(pool, w.rows);
              if (layer_norm) a.bias = floats(pool, w.d), a.mean = floats(pool, w.rows);
              a.rows = w.rows, a.d = a.x_stride = a.y_stride = w.d;
              return a;
            });
          }};
}

/// The backward adds to the residual gradient and recomputes the output.
MemoryCaseMaker norm_backward(const Widths& w, bool layer_norm, DType y) {
  return {std::string("norm_backward ") + (y == DType::kF32 ? "fp32" : "fp32, bf16 y"),
          [=](const KernelTable& table, Pool& pool, int32_t workers) {
            const int64_t n = w.rows * w.d;
            return repeat(table.norm_backward, pool, n * (16 + size_of(y)), n, {2, 1, 1}, [&] {
              kernels::NormBackward a;
              a.x = floats(pool, n), a.dy = floats(pool, n), a.dx = floats(pool, n);
              a.y = values(pool, n, y), a.y_type = y;
              a.weight = floats(pool, w.d), a.dweight = floats(pool, w.d);
              a.rstd = floats(pool, w.rows, true);
              if (layer_norm) {
                a.bias = floats(pool, w.d), a.dbias = floats(pool, w.d), a.mean = floats(pool, w.rows);
              }
              a.rows = w.rows, a.d = a.x_stride = a.y_stride = a.dx_stride = a.dy_stride = w.d;
              a.dx_accumulate = a.weights_accumulate = true;
              a.workspace = pool.take(table.norm_backward_workspace_bytes(a, workers));
              return a;
            });
          }};
}

MemoryCaseMaker cross_entropy(const Widths& w, bool backward) {
  return {std::string("cross_entropy ") + (backward ? "with backward" : "forward"),
          [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t rows = std::max<int64_t>(1, (8 << 20) / (w.vocab * 4)), n = rows * w.vocab;
            const StreamShape plain = backward ? StreamShape{0, 0, 1} : StreamShape{1, 0, 0};
            return repeat(table.cross_entropy, pool, n * (backward ? 8 : 4), n, plain, [&] {
              kernels::CrossEntropy a;
              a.logits = floats(pool, n), a.losses = floats(pool, rows);
              a.targets = static_cast<const int32_t*>(pool.take(4 * rows));
              for (int64_t r = 0; r < rows; ++r) const_cast<int32_t*>(a.targets)[r] = static_cast<int>(r);
              float* const scale = floats(pool, 1);
              *scale = 1.0f, a.grad_scale = scale;
              a.rows = rows, a.vocab = w.vocab, a.backward = backward;
              return a;
            });
          }};
}

MemoryCaseMaker sum_of_squares(const Widths& w, DType type) {
  return {std::string("sum_of_squares ") + name_of(type), [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.d * w.f;
            return repeat(table.sum_of_squares, pool, n * size_of(type), n, {1, 0, 0}, [&] {
              kernels::SumOfSquares a;
              a.g = values(pool, n, type), a.n = n, a.type = type;
              a.sum = new (pool.take(sizeof(ExactSum))) ExactSum;
              a.workspace = static_cast<ExactSum*>(pool.take(kernels::kNormTasks * sizeof(ExactSum)));
              return a;
            });
          }};
}

const kernels::OptimizerScalars* scalars() {
  static const kernels::OptimizerScalars kScalars = {1e-4f, 1.0f, 0.5f, 0.5f, 7};
  return &kScalars;
}

MemoryCaseMaker adamw(const Widths& w, bool copy) {
  return {copy ? "adamw fp32, bf16 copy" : "adamw fp32", [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.d * w.f;
            const StreamShape plain = copy ? StreamShape{1, 1, 3} : StreamShape{1, 0, 3};
            return repeat(table.adamw, pool, n * (copy ? 30 : 28), n, plain, [&] {
              kernels::AdamW a;
              a.weight = floats(pool, n), a.m = floats(pool, n), a.v = floats(pool, n, true);
              a.grad = floats(pool, n), a.copy = copy ? pool.take(2 * n) : nullptr;
              a.scalars = scalars(), a.n = n;
              return a;
            });
          }};
}

MemoryCaseMaker adamw_bf16(const Widths& w) {
  return {"adamw bf16", [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.d * w.f;
            return repeat(table.adamw_bf16, pool, n * 14, n, {1, 0, 3}, [&] {
              kernels::AdamWBf16 a;
              a.weight = values(pool, n, DType::kBf16), a.m = values(pool, n, DType::kBf16);
              a.v = values(pool, n, DType::kBf16, true), a.grad = values(pool, n, DType::kBf16);
              a.scalars = scalars(), a.n = n;
              return a;
            });
          }};
}

MemoryCaseMaker rope(const Widths& w, DType type) {
  return {std::string("rope ") + name_of(type), [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t heads = w.heads + w.kv_heads, n = w.rows * heads * w.head_dim;
            return repeat(table.rope, pool, 2 * n * size_of(type), n, {0, 0, 1}, [&] {
              kernels::Rope a;
              a.stride = (heads + w.kv_heads) * w.head_dim;
              a.x = values(pool, w.rows * a.stride, type), a.type = type;
              a.cos_sin = floats(pool, w.rows * w.head_dim);
              a.positions = static_cast<const int32_t*>(pool.take(4 * w.rows));
              for (int64_t r = 0; r < w.rows; ++r) const_cast<int32_t*>(a.positions)[r] = static_cast<int>(r);
              a.rows = w.rows, a.heads = heads, a.d = w.head_dim;
              return a;
            });
          }};
}

std::string name_of(const char* what, kernels::Activation kind, bool gated, DType type) {
  constexpr const char* kNames[] = {"gelu ", "gelu_tanh ", "silu "};
  return std::string(gated ? "swiglu " : kNames[static_cast<int>(kind)]) + what + " " + name_of(type);
}

MemoryCaseMaker activation_forward(const Widths& w, kernels::Activation kind, bool gated, DType type) {
  return {name_of("forward", kind, gated, type), [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.rows * w.f, inputs = gated ? 2 : 1;
            return repeat(table.activation_forward, pool, n * (inputs + 1) * size_of(type), n,
                          {static_cast<int>(inputs), 1, 0}, [&] {
                            kernels::ActivationForward a;
                            a.h = values(pool, inputs * n, type), a.y = values(pool, n, type);
                            a.rows = w.rows, a.f = w.f, a.kind = kind, a.gated = gated, a.type = type;
                            return a;
                          });
          }};
}

/// The backward recomputes the output too.
MemoryCaseMaker activation_backward(const Widths& w, kernels::Activation kind, bool gated, DType type) {
  return {name_of("backward", kind, gated, type), [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.rows * w.f, inputs = gated ? 2 : 1;
            const int arrays = static_cast<int>(inputs) + 1;
            return repeat(table.activation_backward, pool, n * 2 * arrays * size_of(type), n,
                          {arrays, arrays, 0}, [&] {
                            kernels::ActivationBackward a;
                            a.h = values(pool, inputs * n, type), a.dy = values(pool, n, type);
                            a.dh = values(pool, inputs * n, type), a.y = values(pool, n, type);
                            a.rows = w.rows, a.f = w.f, a.kind = kind, a.gated = gated, a.type = type;
                            return a;
                          });
          }};
}

MemoryCaseMaker residual(const Widths& w, DType branch) {
  return {std::string("residual_forward ") + (branch == DType::kF32 ? "fp32" : "bf16 branch"),
          [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.rows * w.d;
            return repeat(table.residual_forward, pool, n * (8 + size_of(branch)), n, {2, 1, 0}, [&] {
              kernels::ResidualForward a;
              a.x = floats(pool, n), a.y = floats(pool, n), a.branch = values(pool, n, branch);
              a.branch_type = branch, a.rows = w.rows, a.d = w.d, a.seq = w.rows;
              return a;
            });
          }};
}

MemoryCaseMaker column_sum(const Widths& w, DType type) {
  return {std::string("column_sum ") + name_of(type), [=](const KernelTable& table, Pool& pool, int32_t) {
            const int64_t n = w.rows * w.f;
            return repeat(table.column_sum, pool, n * size_of(type), n, {1, 0, 0}, [&] {
              kernels::ColumnSum a;
              a.dbias = floats(pool, w.f), a.dy = values(pool, n, type), a.type = type;
              a.rows = w.rows, a.n = a.stride = w.f;
              return a;
            });
          }};
}

}  // namespace

Pool::Pool(int64_t bytes) : memory_(device::map_memory(bytes)), bytes_(bytes) {
  if (memory_ == nullptr) std::abort();
  for (int64_t i = 0; i < bytes / 4; ++i) floats()[i] = 1e-6f;
}
Pool::~Pool() { device::unmap_memory(memory_, bytes_); }

void* Pool::take(int64_t bytes) {
  char* const p = memory_ + used_;
  used_ += (bytes + 63) / 64 * 64;
  if (used_ > bytes_) std::abort();
  return p;
}

std::vector<MemoryCaseMaker> memory_cases(const std::string& model) {
  using enum kernels::Activation;
  const bool gpt2 = model == "124M";
  const Widths& w = gpt2 ? kGpt2 : kQwen;
  std::vector<MemoryCaseMaker> cases;
  for (const DType type : {DType::kF32, DType::kBf16}) cases.push_back(norm_forward(w, gpt2, type));
  for (const DType type : {DType::kF32, DType::kBf16}) cases.push_back(norm_backward(w, gpt2, type));
  for (const bool backward : {false, true}) cases.push_back(cross_entropy(w, backward));
  for (const DType type : {DType::kF32, DType::kBf16}) cases.push_back(sum_of_squares(w, type));
  for (const bool copy : {false, true}) cases.push_back(adamw(w, copy));
  cases.push_back(adamw_bf16(w));
  for (const DType type : {DType::kF32, DType::kBf16}) {
    for (const auto kind : {kGelu, kGeluTanh}) {
      if (!gpt2) continue;
      cases.push_back(activation_forward(w, kind, false, type));
      cases.push_back(activation_backward(w, kind, false, type));
    }
    if (gpt2) continue;
    cases.push_back(activation_forward(w, kSilu, true, type));
    cases.push_back(activation_backward(w, kSilu, true, type));
    cases.push_back(rope(w, type));
  }
  for (const DType type : {DType::kF32, DType::kBf16}) cases.push_back(residual(w, type));
  for (const DType type : {DType::kF32, DType::kBf16}) cases.push_back(column_sum(w, type));
  return cases;
}

}  // namespace hawser::bench
