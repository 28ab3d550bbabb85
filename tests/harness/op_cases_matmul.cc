// Rows of the op-case table for the matrix product.
#include "kernels/cpu/matmul_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_matmul {

using kernels::Matmul;

struct Problem {
  int64_t m, n, k;
  bool a_transposed = false, b_transposed = false, accumulate = false, bias = false;
};

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                {3, 5, 7},
                                {1, 130, 65},
                                {67, 33, 129},
                                {130, 100, 300},
                                {17, 3, 1100},
                                {4, 6, 0}}) {
    for (int flags = 0; flags < 4; ++flags) {
      all.push_back({m, n, k, (flags & 1) != 0, (flags & 2) != 0, false, flags == 2});
    }
    all.push_back({m, n, k, false, true, true, false});
    all.push_back({m, n, k, true, false, true, true});
  }
  // These use the row-wise form: the first for up to three workers, the others for up to two.
  all.push_back({291, 35, 780, false, true, false, true});
  all.push_back({291, 35, 780, false, false, true, false});
  all.push_back({285, 35, 400, false, true, false, false});
  return all;
}

std::string name_of(const Problem& p) {
  return std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) +
         (p.a_transposed ? "_at" : "") + (p.b_transposed ? "_bt" : "") + (p.bias ? "_bias" : "") +
         (p.accumulate ? "_accumulate" : "");
}

Matmul args_of(const Problem& p, DType a_type, DType b_type, DType c_type) {
  Matmul x;
  x.a_type = a_type;
  x.b_type = b_type;
  x.c_type = c_type;
  x.m = p.m;
  x.n = p.n;
  x.k = p.k;
  x.lda = (p.a_transposed ? p.m : p.k) + 3;
  x.ldb = (p.b_transposed ? p.k : p.n) + 1;
  x.ldc = p.n + 2;
  x.a_transposed = p.a_transposed;
  x.b_transposed = p.b_transposed;
  x.accumulate = p.accumulate;
  return x;
}

int64_t a_size(const Problem& p, const Matmul& x) { return (p.a_transposed ? p.k : p.m) * x.lda; }
int64_t b_size(const Problem& p, const Matmul& x) { return (p.b_transposed ? p.n : p.k) * x.ldb; }

OpCase product_case(const Problem& p, DType a_type, DType b_type, DType c_type, DType bias_type,
                    DType round_to = DType::kF32) {
  Matmul x = args_of(p, a_type, b_type, c_type);
  x.round_to = round_to;
  x.bias_type = bias_type;
  OpCase c = {"matmul",
              name_of(p) + "/" + type_word(a_type) + "_" + type_word(b_type) + "_" + type_word(c_type) +
                  (round_to != DType::kF32 ? "_to_" + type_word(round_to) : "") +
                  (bias_type != c_type ? "_bias_" + type_word(bias_type) : ""),
              {},
              nullptr,
              nullptr};
  c.cpu_only = product_type(x) == DType::kF16;
  c.for_cpu_tiles = p.m >= 200;  // the row-wise form
  c.operands = {
      input("a", a_type, a_size(p, x), 1), input("b", b_type, b_size(p, x), 2),
      input("bias", bias_type, p.n, 3),
      p.accumulate ? in_out("c", c_type, p.m * x.ldc, 4, 1.0, 1e-5) : output("c", c_type, p.m * x.ldc, 1e-5)};
  for (double& value : c.operands[2].value)
    value = rounded(value, c_type);  // the form in which any backend
                                     // may add it
  if (product_type(x) != DType::kF32)
    c.operands[3].on_tensor_cores = tensor_core_tolerance(p.k, p.bias && c_type != DType::kF32);
  c.fast = [=](const FastCall& call) {
    Matmul args = x;
    args.a = call.data[0];
    args.b = call.data[1];
    args.bias = p.bias ? call.data[2] : nullptr;
    args.c = call.data[3];
    args.workspace = call.workspace(call.table.matmul_workspace_bytes(args, call.stream.num_workers));
    call.table.matmul(args, call.stream);
  };
  const DType form = product_type(x);
  c.reference = [=](RealOperands& v) {
    for (const size_t operand : {0, 1}) {
      for (double& value : v[operand]) value = rounded(value, form);
    }
    matmul_reference(x, v[3].data(), v[0].data(), v[1].data(), p.bias ? v[2].data() : nullptr);
  };
  return c;
}

GradientCase gradient_case(const Problem& p) {
  Matmul x = args_of(p, DType::kF32, DType::kF32, DType::kF32);
  x.ldc = p.n;
  GradientCase c = {"matmul", name_of(p), {}, nullptr, nullptr};
  c.inputs = {random_values(a_size(p, x), 1), random_values(b_size(p, x), 2), random_values(p.n, 3)};
  c.forward = [=](const ComplexOperands& in) {
    std::vector<Complex> out(static_cast<size_t>(p.m * p.n));
    matmul_reference(x, out.data(), in[0].data(), in[1].data(), in[2].data());
    return ComplexOperands{out};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dout) {
    RealOperands d;
    for (const auto& operand : in) d.emplace_back(operand.size());
    matmul_backward_reference(x, d[0].data(), d[1].data(), d[2].data(), dout[0].data(), in[0].data(),
                              in[1].data());
    return d;
  };
  return c;
}

}  // namespace op_cases_matmul

void add_matmul_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_matmul;
  const DType f32 = DType::kF32, bf16 = DType::kBf16, f16 = DType::kF16;
  for (const Problem& p : problems()) {
    cases.push_back(product_case(p, f32, f32, f32, f32));
    for (const DType narrow : {bf16, f16}) {
      cases.push_back(product_case(p, f32, f32, f32, f32, narrow));
      if (!p.accumulate) cases.push_back(product_case(p, f32, f32, narrow, narrow));
      for (const auto& [a, b] : {std::pair{narrow, narrow}, {f32, narrow}, {narrow, f32}}) {
        cases.push_back(product_case(p, a, b, f32, f32));
        if (!p.accumulate) cases.push_back(product_case(p, a, b, narrow, narrow));
      }
      if (p.bias && !p.accumulate) cases.push_back(product_case(p, narrow, narrow, narrow, f32));
    }
  }
  // These use the row-wise form although op(b) is large, for up to two workers.
  cases.push_back(product_case({200, 100, 2305, false, true, false, true}, f32, bf16, f32, f32));
  cases.push_back(product_case({200, 99, 2303, true, false, true, false}, f32, f32, f32, f32, bf16));
  // These need sums of several blocks outside a narrow C, of several column tiles: in the row-wise and in the
  // column-wise form. (The shared form needs more rows: matmul_test.)
  cases.push_back(product_case({290, 130, 780, false, true, false, true}, bf16, bf16, bf16, f32));
  cases.push_back(product_case({40, 260, 780, false, false, false, false}, f32, bf16, bf16, f32));
  cases.push_back(product_case({290, 130, 780, false, true, false, true}, f16, f16, f16, f32));
  cases.push_back(product_case({40, 260, 780, false, false, false, false}, f32, f16, f16, f32));
  // These have a long k, which is summed in segments.
  cases.push_back(product_case({6, 20, 12003, false, true, true, true}, f32, f32, f32, f32));
  cases.push_back(product_case({3, 40, 24001, true, false, true, false}, f32, bf16, f32, f32));
  cases.push_back(product_case({5, 20, 24100, false, false, false, true}, f32, bf16, bf16, f32));
  cases.push_back(product_case({5, 20, 24100, false, false, false, true}, f32, f16, f16, f32));
}

void add_matmul_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_matmul;
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) cases.push_back(gradient_case({3, 4, 5, a, b, false, true}));
  }
}

}  // namespace hawser::testing
