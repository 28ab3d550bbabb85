// Rows of the op-case table for products that round their operands to fp8: the three products of a layer,
// with one or several parts that have scales of their own. The reference rounds each number, then
// multiplies.
#include "kernels/cpu/activation_reference.h"
#include "kernels/cpu/fp8_reference.h"
#include "kernels/cpu/matmul_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_fp8_product {

using kernels::Fp8Factor;
using kernels::Matmul;

/// The products of a layer: x W^T, dy W and dy^T x. The weights, and the gradients, are divided into parts.
enum class Form { kForward, kInputGradient, kWeightGradient };

struct Problem {
  Form form;
  int64_t m, n, k;
  std::vector<int64_t> parts;  ///< of n, k or m
  DType a_type = DType::kBf16, c_type = DType::kBf16;
  bool bias = false, accumulate = false, gelu = false;
  int32_t margin = 0;

  bool divides_a() const { return form != Form::kForward; }
  bool divides_b() const { return form != Form::kWeightGradient; }
  std::string name() const {
    constexpr const char* kForms[] = {"forward", "dx", "dw"};
    return "fp8/" + std::string(kForms[static_cast<size_t>(form)]) + "_" + std::to_string(m) + "x" +
           std::to_string(n) + "x" + std::to_string(k) + "_parts" + std::to_string(parts.size()) + "_" +
           type_word(a_type) + "_" + type_word(c_type) + (bias ? "_bias" : "") +
           (accumulate ? "_accumulate" : "") + (gelu ? "_gelu" : "") + "_margin" + std::to_string(margin);
  }
};

Matmul args_of(const Problem& p) {
  Matmul x;
  x.a_type = p.a_type, x.b_type = DType::kBf16, x.c_type = p.c_type, x.bias_type = DType::kF32;
  x.m = p.m, x.n = p.n, x.k = p.k;
  x.a_transposed = p.form == Form::kWeightGradient, x.b_transposed = p.form == Form::kForward;
  x.lda = (x.a_transposed ? p.m : p.k) + 8, x.ldb = (x.b_transposed ? p.k : p.n) + 16;
  x.ldc = p.gelu ? p.n : p.n + 16;
  x.accumulate = p.accumulate, x.fp8_margin = p.margin;
  if (p.gelu) x.epilogue = kernels::Epilogue::kGeluTanh;
  x.a_fp8.type = p.form == Form::kForward ? DType::kE4m3Block : DType::kE5m2Block;
  const auto divide = [&](Fp8Factor* f, bool divided) {
    for (const int64_t size : divided ? p.parts : std::vector<int64_t>{0}) f->part[f->parts++].size = size;
  };
  divide(&x.a_fp8, p.divides_a());
  divide(&x.b_fp8, p.divides_b());
  return x;
}

/// Rounds the numbers of an operand, of whose columns or rows each part has a maximum.
void round(std::vector<double>& x, const Fp8Factor& f, int64_t ld, bool columns, const double* maxima,
           int32_t margin) {
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t at = columns ? static_cast<int64_t>(i) % ld : static_cast<int64_t>(i) / ld;
    int32_t part = 0;
    while (part + 1 < f.parts && at >= f.begin(part + 1)) ++part;
    x[i] = kernels::fp8_rounded(kernels::fp8_format(f.type), x[i], maxima[part], margin);
  }
}

OpCase product_case(const Problem& p) {
  const Matmul x = args_of(p);
  OpCase c = {"matmul", p.name(), {}, nullptr, nullptr};
  c.narrow = true;
  const int64_t a_size = (x.a_transposed ? p.k : p.m) * x.lda, b_size = (x.b_transposed ? p.n : p.k) * x.ldb;
  // Some numbers saturate, and some are subnormal.
  const std::vector<double> maxima = {2.0, 0.25, 300.0, 0.5, 1.0, 40.0, 0.125, 3.0};
  const double tolerance = p.gelu ? 1.0 / 256 : 1e-5;
  const auto result = [&](const char* name, int64_t n) {
    return p.accumulate ? in_out(name, p.c_type, n, 4, 1.0, tolerance) : output(name, p.c_type, n, tolerance);
  };
  c.operands = {input("a", p.a_type, a_size, 1), input("b", DType::kBf16, b_size, 2, 0.3),
                input("bias", DType::kF32, p.n, 3), Operand{"maxima", Role::kInput, DType::kF32, maxima},
                result("c", (p.m - 1) * x.ldc + p.n)};
  if (p.gelu) c.operands.push_back(output("aux", p.c_type, p.m * p.n, tolerance));
  for (double& value : c.operands[2].value) value = rounded(value, p.c_type);
  // Hopper's tensor cores add products of fp8 with about 14 binary digits before they add to a sum in f32.
  c.operands[4].on_tensor_cores =
      1.0 / (1 << 12) + tensor_core_tolerance(p.k, p.bias && p.c_type != DType::kF32);
  c.fast = [=](const FastCall& call) {
    Matmul args = x;
    for (int32_t i = 0; i < Fp8Factor::kMost; ++i)
      args.a_fp8.part[i].maximum = call.as<float>(3) + i,
      args.b_fp8.part[i].maximum = call.as<float>(3) + Fp8Factor::kMost + i;
    args.a = call.data[0], args.b = call.data[1], args.c = call.data[4];
    if (p.bias) args.bias = call.data[2];
    if (p.gelu) args.aux = call.data[5];
    args.workspace = call.workspace(call.table.matmul_workspace_bytes(args, call.stream.num_workers));
    call.table.matmul(args, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    round(v[0], x.a_fp8, x.lda, true, v[3].data(), p.margin);
    round(v[1], x.b_fp8, x.ldb, false, v[3].data() + Fp8Factor::kMost, p.margin);
    std::vector<double>& h = p.gelu ? v[5] : v[4];
    Matmul product = x;
    product.a_fp8 = product.b_fp8 = {};
    matmul_reference(product, h.data(), v[0].data(), v[1].data(), p.bias ? v[2].data() : nullptr);
    if (p.gelu)
      kernels::activation_forward_reference(
          {nullptr, nullptr, p.c_type, p.m, p.n, kernels::Activation::kGeluTanh, false}, v[4].data(),
          h.data());
  };
  return c;
}

}  // namespace op_cases_fp8_product

void add_fp8_product_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_fp8_product;
  using enum Form;
  const DType f32 = DType::kF32, bf16 = DType::kBf16;
  const std::vector<Problem> problems = {
      {kForward, 32, 48, 64, {48}},
      {kForward, 144, 96, 80, {48, 16, 32}, bf16, bf16, true},
      {kForward, 16, 64, 32, {64}, f32, f32, false, true, false, 2},
      {kForward, 16, 64, 32, {32, 32}, bf16, f32, true},  // its bias is added in f32
      {kForward, 32, 48, 32, {48}, bf16, bf16, true, false, true},
      {kForward, 5, 24, 40, {12, 12}, bf16, bf16, true, false, true},  // 16 does not divide these sizes
      {kForward, 17, 32, 32, {16, 16}, bf16, f32},
      {kInputGradient, 32, 64, 48, {48}, f32},
      {kInputGradient, 48, 80, 144, {64, 32, 48}, bf16, bf16},
      {kInputGradient, 48, 80, 64, {32, 32}, bf16, f32, false, true, false, 1},
      {kInputGradient, 9, 20, 30, {10, 20}, f32, bf16},
      {kWeightGradient, 64, 48, 32, {64}, f32, f32},
      {kWeightGradient, 160, 48, 144, {96, 32, 32}, bf16, f32, false, true},
      {kWeightGradient, 64, 80, 16, {32, 32}, bf16, bf16},
      {kWeightGradient, 30, 20, 7, {10, 20}, bf16, f32, false, true},
  };
  for (const Problem& p : problems) cases.push_back(product_case(p));
}

}  // namespace hawser::testing
