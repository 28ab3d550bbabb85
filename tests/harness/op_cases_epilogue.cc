// Rows of the op-case table for operations fused into products: GELU, its gradient, the gradient of a bias.
// The reference computes the product, then the activation or the column sums.
#include "kernels/cpu/activation_reference.h"
#include "kernels/cpu/matmul_reference.h"
#include "kernels/cpu/reduce_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_epilogue {

using kernels::Activation;
using kernels::Epilogue;
using kernels::Matmul;

/// Operands are laid out as in a layer: x W^T forward, dy W backward, dy^T x for weights. a and b are
/// strided.
struct Problem {
  int64_t m, n, k;
  DType type;                    ///< type of b, c and aux
  DType a_type;                  ///< f32 with bf16: rounded when multiplied
  bool extra;                    ///< forward: a bias; bias gradient: accumulate
  DType sum_type = DType::kF32;  ///< of c with a bias gradient, and of that gradient
};

std::string name_of(const Problem& p, const char* epilogue, const char* extra) {
  return std::string(epilogue) + "/" + std::to_string(p.m) + "x" + std::to_string(p.n) + "x" +
         std::to_string(p.k) + "/" + type_word(p.a_type) + "_" + type_word(p.type) + (p.extra ? extra : "");
}

Matmul args_of(const Problem& p, bool a_transposed, bool b_transposed) {
  Matmul x;
  x.a_type = p.a_type;
  x.b_type = x.c_type = p.type;
  x.m = p.m, x.n = p.n, x.k = p.k;
  x.lda = (a_transposed ? p.m : p.k) + 3;
  x.ldb = (b_transposed ? p.k : p.n) + 1;
  x.ldc = p.n;
  x.a_transposed = a_transposed, x.b_transposed = b_transposed;
  return x;
}

int64_t a_size(const Matmul& x) { return (x.a_transposed ? x.k : x.m) * x.lda; }
int64_t b_size(const Matmul& x) { return (x.b_transposed ? x.n : x.k) * x.ldb; }

void round(std::vector<double>& values, DType type) {
  for (double& value : values) value = rounded(value, type);
}

/// Rounds operands 0 and 1 as the product does.
void round_factors(RealOperands& v, const Matmul& x) {
  const DType form = product_type(x);
  round(v[0], form);
  round(v[1], form);
}

void call(const FastCall& to, Matmul args) {
  args.a = to.data[0];
  args.b = to.data[1];
  args.workspace = to.workspace(to.table.matmul_workspace_bytes(args, to.stream.num_workers));
  to.table.matmul(args, to.stream);
}

/// Tolerance of c: its value before the activation may or may not be rounded, which adds half a unit of bf16.
double tolerance(DType type) { return type == DType::kBf16 ? 1.0 / 256 : 1e-5; }

OpCase gelu_case(const Problem& p) {
  Matmul x = args_of(p, false, true);
  x.epilogue = Epilogue::kGeluTanh;
  x.bias_type = DType::kF32;
  OpCase c = {"matmul", name_of(p, "gelu", "_bias"), {}, nullptr, nullptr};
  c.narrow = true;
  c.operands = {input("a", p.a_type, a_size(x), 1), input("b", p.type, b_size(x), 2, 0.3),
                input("bias", DType::kF32, p.n, 3), output("aux", p.type, p.m * p.n, 1e-5),
                output("c", p.type, p.m * p.n, tolerance(p.type))};
  round(c.operands[2].value, p.type);  // the form in which any backend may add it
  if (product_type(x) != DType::kF32)
    for (const size_t result : {3, 4})
      c.operands[result].on_tensor_cores = tensor_core_tolerance(p.k, p.extra && p.type == DType::kBf16);
  c.fast = [=](const FastCall& to) {
    Matmul args = x;
    args.bias = p.extra ? to.data[2] : nullptr;
    args.aux = to.data[3];
    args.c = to.data[4];
    call(to, args);
  };
  c.reference = [=](RealOperands& v) {
    round_factors(v, x);
    matmul_reference(x, v[3].data(), v[0].data(), v[1].data(), p.extra ? v[2].data() : nullptr);
    kernels::activation_forward_reference({nullptr, nullptr, p.type, p.m, p.n, Activation::kGeluTanh, false},
                                          v[4].data(), v[3].data());
  };
  return c;
}

OpCase gelu_gradient_case(const Problem& p) {
  Matmul x = args_of(p, false, false);
  x.epilogue = Epilogue::kGeluTanhGradient;
  OpCase c = {"matmul", name_of(p, "gelu_gradient", ""), {}, nullptr, nullptr};
  c.narrow = true;
  c.operands = {input("a", p.a_type, a_size(x), 1), input("b", p.type, b_size(x), 2),
                input("aux", p.type, p.m * p.n, 3, 2.0), output("c", p.type, p.m * p.n, tolerance(p.type))};
  c.fast = [=](const FastCall& to) {
    Matmul args = x;
    args.aux = to.data[2];
    args.c = to.data[3];
    call(to, args);
  };
  c.reference = [=](RealOperands& v) {
    round_factors(v, x);
    std::vector<double> product(v[3].size());
    matmul_reference<double>(x, product.data(), v[0].data(), v[1].data(), nullptr);
    kernels::activation_backward_reference(
        {nullptr, nullptr, nullptr, p.type, p.m, p.n, Activation::kGeluTanh, false}, v[3].data(),
        product.data(), v[2].data());
  };
  return c;
}

OpCase bias_gradient_case(const Problem& p) {
  Matmul x = args_of(p, true, false);
  x.c_type = p.sum_type;
  x.accumulate = p.extra;
  const bool wide = p.sum_type == DType::kF32;
  OpCase c = {"matmul",
              name_of(p, wide ? "bias_gradient" : "narrow_bias_gradient", "_accumulate"),
              {},
              nullptr,
              nullptr};
  c.narrow = true;
  const auto result = [&](const char* name, int64_t n, uint32_t seed) {
    const double bound = wide ? 1e-5 : tolerance(p.sum_type);
    return p.extra ? in_out(name, p.sum_type, n, seed, 1.0, bound) : output(name, p.sum_type, n, bound);
  };
  c.operands = {input("a", p.a_type, a_size(x), 1), input("b", p.type, b_size(x), 2),
                result("c", p.m * p.n, 3), result("bias_gradient", p.m, 4)};
  if (product_type(x) != DType::kF32) {
    round(c.operands[0].value, DType::kBf16);  // because a backend may sum the rounded values
    if (wide) c.operands[2].on_tensor_cores = tensor_core_tolerance(p.k, false);
  }
  c.fast = [=](const FastCall& to) {
    Matmul args = x;
    args.c = to.data[2];
    args.bias_gradient = to.data[3];
    call(to, args);
  };
  c.reference = [=](RealOperands& v) {
    round_factors(v, x);
    matmul_reference<double>(x, v[2].data(), v[0].data(), v[1].data(), nullptr);
    kernels::ColumnSum sums;
    sums.rows = p.k, sums.n = p.m, sums.stride = x.lda;
    sums.accumulate = p.extra;
    column_sum_reference(sums, v[3].data(), v[0].data());
  };
  return c;
}

}  // namespace op_cases_epilogue

void add_epilogue_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_epilogue;
  const DType f32 = DType::kF32, bf16 = DType::kBf16;
  for (const auto& [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {1, 8, 40}, {19, 33, 70}, {18, 72, 35}, {5, 8, 0}}) {
    for (const auto& [a_type, type] : {std::pair{f32, f32}, {bf16, bf16}, {f32, bf16}}) {
      for (const bool extra : {false, true}) {
        cases.push_back(gelu_case({m, n, k, type, a_type, extra}));
        cases.push_back(bias_gradient_case({m, n, k, type, a_type, extra}));
      }
      cases.push_back(gelu_gradient_case({m, n, k, type, a_type, false}));
      if (type == bf16) cases.push_back(bias_gradient_case({m, n, k, type, a_type, false, bf16}));
    }
  }
}

}  // namespace hawser::testing
