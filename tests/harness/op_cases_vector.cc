// Rows of the op-case table for sums, copies and optimizer steps.
#include <limits>

#include "kernels/cpu/optimizer_reference.h"
#include "kernels/cpu/reduce_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_vector {

using kernels::AdamW;
using kernels::ColumnSum;
using kernels::Lion;
using kernels::OptimizerScalars;
using kernels::Sgd;

OpCase column_sum_case(int64_t rows, int64_t n, DType type, bool accumulate) {
  ColumnSum a;
  a.type = type;
  a.rows = rows;
  a.n = n;
  a.stride = n + 4;
  a.accumulate = accumulate;
  OpCase c = {
      "column_sum",
      std::to_string(rows) + "x" + std::to_string(n) + (accumulate ? "_accumulate/" : "/") + type_word(type),
      {},
      nullptr,
      nullptr};
  c.operands = {input("dy", type, rows * a.stride, 1),
                accumulate ? in_out("dbias", DType::kF32, n, 2) : output("dbias", DType::kF32, n)};
  c.fast = [=](const FastCall& call) {
    ColumnSum args = a;
    args.dy = call.data[0];
    args.dbias = call.as<float>(1);
    args.workspace = call.workspace(call.table.column_sum_workspace_bytes(args, call.stream.num_workers));
    call.table.column_sum(args, call.stream);
  };
  c.reference = [=](RealOperands& v) { column_sum_reference(a, v[1].data(), v[0].data()); };
  return c;
}

/// The results are exact except for the order within a block, which the reference shares, so both round to
/// the same value.
OpCase sum_of_squares_case(int64_t n, DType type) {
  OpCase c = {"sum_of_squares", std::to_string(n) + "/" + type_word(type), {}, nullptr, nullptr};
  c.operands = {input("g", type, n, 1), output("value", DType::kF64, 1, 0)};
  c.fast = [=](const FastCall& call) {
    constexpr auto kBytes = kernels::kNormTasks * static_cast<int64_t>(sizeof(ExactSum));
    ExactSum sum;
    call.table.sum_of_squares({&sum, call.data[0], n, static_cast<ExactSum*>(call.workspace(kBytes)), type},
                              call.stream);
    *call.as<double>(1) = sum.value();
  };
  c.reference = [=](RealOperands& v) {
    std::vector<double> blocks(static_cast<size_t>(n / kernels::kNormBlock + 1));
    kernels::sum_of_squares_reference(n, blocks.data(), v[0].data());
    ExactSum sum;
    for (const double block : blocks) sum.add(block);
    v[1][0] = sum.value();
  };
  return c;
}

OpCase add_case(int64_t n, bool in_place) {
  const size_t y = in_place ? 0 : 2;
  OpCase c = {"add", std::to_string(n) + (in_place ? "/in_place" : ""), {}, nullptr, nullptr};
  c.operands = {in_place ? in_out("a", DType::kF32, n, 1, 1.0, 1e-7) : input("a", DType::kF32, n, 1),
                input("b", DType::kF32, n, 2)};
  if (!in_place) c.operands.push_back(output("y", DType::kF32, n, 1e-7));
  c.fast = [=](const FastCall& call) {
    call.table.add({call.as<float>(y), call.as<float>(0), call.as<float>(1), n}, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    for (size_t i = 0; i < v[1].size(); ++i) v[y][i] = v[0][i] + v[1][i];
  };
  return c;
}

/// The result is exact: only the nearest value, ties to even, is correct.
OpCase convert_case(int64_t n, DType from, DType to) {
  OpCase c = {"convert", std::string(dtype_name(from)) + "_to_" + dtype_name(to), {}, nullptr, nullptr};
  c.operands = {input("x", from, n, 1), output("y", to, n)};
  c.operands[1].tolerance = 0;
  std::vector<double>& x = c.operands[0].value;
  const double special[] = {0.0,
                            std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN(),
                            65519.0,
                            65520.0,
                            -1e30,
                            6.1e-5,
                            5.9e-8,
                            2.9e-8,
                            1.00390625,
                            1.01171875,
                            3e38};
  for (size_t i = 0; i < std::size(special) && i < x.size(); ++i) x[i] = rounded(special[i], from);
  c.fast = [=](const FastCall& call) {
    call.table.convert({call.data[1], call.data[0], to, from, n}, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    for (size_t i = 0; i < v[0].size(); ++i) v[1][i] = rounded(v[0][i], to);
  };
  return c;
}

/// The result is exact, too: one addition of fp32, rounded once more.
OpCase rounded_sum_case(int64_t n) {
  OpCase c = {"convert", std::to_string(n) + "/accumulate", {}, nullptr, nullptr};
  c.operands = {input("x", DType::kF32, n, 1), in_out("y", DType::kBf16, n, 2, 1.0, 0)};
  c.fast = [=](const FastCall& call) {
    call.table.convert({call.data[1], call.data[0], DType::kBf16, DType::kF32, n, true}, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    for (size_t i = 0; i < v[0].size(); ++i)
      v[1][i] = rounded(rounded(v[1][i] + v[0][i], DType::kF32), DType::kBf16);
  };
  return c;
}

/// Rows with gaps, times a scale, like a low-rank product that is scaled and added to rows of a wider one.
OpCase scaled_case(int64_t n, DType to, bool accumulate) {
  constexpr int64_t kRows = 5;
  OpCase c = {"convert",
              std::to_string(n) + (accumulate ? "/scaled_accumulate/" : "/scaled/") + type_word(to),
              {},
              nullptr,
              nullptr};
  const int64_t x_stride = n + 3, y_stride = n + 8;
  const double tolerance = to == DType::kF32 ? 1e-7 : 4e-3;
  c.operands = {input("x", DType::kF32, kRows * x_stride, 1),
                in_out("y", to, kRows * y_stride, 2, 1.0, tolerance)};
  c.fast = [=](const FastCall& call) {
    call.table.convert(
        {call.data[1], call.data[0], to, DType::kF32, n, accumulate, kRows, y_stride, x_stride, 0.75f},
        call.stream);
  };
  c.reference = [=](RealOperands& v) {
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t j = 0; j < n; ++j) {
        double& y = v[1][static_cast<size_t>(r * y_stride + j)];
        y = (accumulate ? y : 0.0) + 0.75 * v[0][static_cast<size_t>(r * x_stride + j)];
      }
    }
  };
  return c;
}

constexpr OptimizerScalars kScalars = {
    .lr = 0.01f, .grad_scale = 0.5f, .bias_correction1 = 0.271f, .bias_correction2 = 0.0029955f};

OpCase adamw_case(int64_t n, bool copy, float weight_decay, DType copy_type = DType::kBf16) {
  AdamW a;
  a.scalars = &kScalars;
  a.n = n;
  a.weight_decay = weight_decay;
  a.copy_type = copy_type;
  OpCase c = {
      "adamw", std::to_string(n) + (copy ? "_copy_" + type_word(copy_type) : ""), {}, nullptr, nullptr};
  c.operands = {in_out("weight", DType::kF32, n, 1, 1.0, 1e-6), in_out("m", DType::kF32, n, 2, 0.1, 1e-6),
                in_out("v", DType::kF32, n, 3, 0.1, 1e-6), input("grad", DType::kF32, n, 4),
                output("copy", copy_type, n, 1e-6)};
  for (double& v : c.operands[2].value) v = std::abs(v);
  c.fast = [=](const FastCall& call) {
    AdamW args = a;
    args.weight = call.as<float>(0);
    args.m = call.as<float>(1);
    args.v = call.as<float>(2);
    args.grad = call.as<float>(3);
    args.copy = copy ? call.data[4] : nullptr;
    call.table.adamw(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) {
      adamw_reference(a, kScalars, x[0][i], x[1][i], x[2][i], x[3][i]);
      if (copy) x[4][i] = x[0][i];
    }
  };
  return c;
}

OpCase sgd_case(int64_t n, float momentum, bool nesterov, bool copy, DType copy_type = DType::kBf16) {
  Sgd a;
  a.scalars = &kScalars;
  a.n = n;
  a.momentum = momentum;
  a.nesterov = nesterov;
  a.weight_decay = 0.1f;
  a.copy_type = copy_type;
  OpCase c = {"sgd",
              std::to_string(n) + (momentum > 0 ? "_momentum" : "") + (nesterov ? "_nesterov" : "") +
                  (copy ? "_copy_" + type_word(copy_type) : ""),
              {},
              nullptr,
              nullptr};
  c.operands = {in_out("weight", DType::kF32, n, 1, 1.0, 1e-6),
                momentum > 0 ? in_out("buf", DType::kF32, n, 2, 1.0, 1e-6) : output("buf", DType::kF32, n),
                input("grad", DType::kF32, n, 4), output("copy", copy_type, n, 1e-6)};
  c.fast = [=](const FastCall& call) {
    Sgd args = a;
    args.weight = call.as<float>(0);
    args.buf = momentum > 0 ? call.as<float>(1) : nullptr;
    args.grad = call.as<float>(2);
    args.copy = copy ? call.data[3] : nullptr;
    call.table.sgd(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) {
      double none = 0;
      sgd_reference(a, kScalars, x[0][i], momentum > 0 ? x[1][i] : none, x[2][i]);
      if (copy) x[3][i] = x[0][i];
    }
  };
  return c;
}

OpCase lion_case(int64_t n, bool copy, DType copy_type = DType::kBf16) {
  Lion a;
  a.scalars = &kScalars;
  a.n = n;
  a.weight_decay = 0.1f;
  a.copy_type = copy_type;
  OpCase c = {
      "lion", std::to_string(n) + (copy ? "_copy_" + type_word(copy_type) : ""), {}, nullptr, nullptr};
  c.operands = {in_out("weight", DType::kF32, n, 1, 1.0, 1e-6), in_out("m", DType::kF32, n, 2, 0.1, 1e-6),
                input("grad", DType::kF32, n, 4), output("copy", copy_type, n, 1e-6)};
  c.fast = [=](const FastCall& call) {
    Lion args = a;
    args.weight = call.as<float>(0);
    args.m = call.as<float>(1);
    args.grad = call.as<float>(2);
    args.copy = copy ? call.data[3] : nullptr;
    call.table.lion(args, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (size_t i = 0; i < x[0].size(); ++i) {
      lion_reference(a, kScalars, x[0][i], x[1][i], x[2][i]);
      if (copy) x[3][i] = x[0][i];
    }
  };
  return c;
}

}  // namespace op_cases_vector

void add_vector_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_vector;
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const bool accumulate : {false, true}) {
      cases.push_back(column_sum_case(1, 1, type, accumulate));
      cases.push_back(column_sum_case(333, 77, type, accumulate));
      cases.push_back(column_sum_case(333, 508, type, accumulate));
    }
  }
  for (const int64_t n : {1, 4095, 4096, 20001}) {
    cases.push_back(sum_of_squares_case(n, DType::kF32));
    cases.push_back(rounded_sum_case(n));
    for (const bool accumulate : {false, true}) {
      cases.push_back(scaled_case(n % 97 + 1, DType::kF32, accumulate));
      cases.push_back(scaled_case(n % 97 + 1, DType::kBf16, accumulate));
    }
    cases.push_back(add_case(n, false));
    cases.push_back(add_case(n, true));
    for (const bool copy : {false, true}) {
      cases.push_back(adamw_case(n, copy, copy ? 0.1f : 0.0f));
      cases.push_back(sgd_case(n, 0.0f, false, copy));
      cases.push_back(sgd_case(n, 0.9f, copy, copy));
    }
    cases.push_back(lion_case(n, false));
    cases.push_back(lion_case(n, true));
    cases.push_back(lion_case(n, true, DType::kF16));
    cases.push_back(adamw_case(n, true, 0.1f, DType::kF16));
    cases.push_back(sgd_case(n, 0.9f, true, true, DType::kF16));
  }
  cases.push_back(sum_of_squares_case(1, DType::kBf16));
  cases.push_back(sum_of_squares_case(4159, DType::kBf16));
  for (const DType from : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const DType to : {DType::kF32, DType::kBf16, DType::kF16}) {
      cases.push_back(convert_case(1, from, to));
      cases.push_back(convert_case(20011, from, to));
    }
  }
}

}  // namespace hawser::testing
