// Rows of the op-case table for LayerNorm and RMSNorm.
#include <array>
#include <memory>

#include "kernels/cpu/norm_reference.h"
#include "kernels/cpu/residual_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_norm {

using kernels::NormBackward;
using kernels::NormForward;

struct Problem {
  std::string name;
  int64_t rows, groups, d;
  int64_t gap = 0;  // elements between rows
  bool mean = true, bias = true;
  float weight_offset = 0;
};

std::vector<Problem> problems() {
  return {
      {.name = "layer_norm", .rows = 70, .groups = 1, .d = 100},
      {.name = "layer_norm_no_bias", .rows = 9, .groups = 1, .d = 768, .bias = false},
      {.name = "rms_norm", .rows = 33, .groups = 1, .d = 257, .mean = false, .bias = false},
      {.name = "rms_norm_offset",
       .rows = 5,
       .groups = 1,
       .d = 64,
       .mean = false,
       .bias = false,
       .weight_offset = 1},
      {.name = "qk_norm", .rows = 40, .groups = 3, .d = 24, .gap = 50, .mean = false, .bias = false},
      {.name = "many_rows", .rows = 1500, .groups = 1, .d = 33},
      {.name = "one_element", .rows = 3, .groups = 1, .d = 1},
      {.name = "long_rows", .rows = 5, .groups = 1, .d = 1600},
      {.name = "odd_long_rows", .rows = 3, .groups = 1, .d = 9001, .mean = false, .bias = false},
  };
}

enum Types {
  kX,
  kY,
  kW
};  // types of the forward; in the backward kY is the type of dy, and dx has the type
    // of dy

NormForward forward_args(const Problem& p, std::array<DType, 3> types) {
  NormForward a;
  a.x_type = types[kX];
  a.y_type = types[kY];
  a.weight_type = types[kW];
  a.rows = p.rows;
  a.groups = p.groups;
  a.d = p.d;
  a.x_stride = p.groups * p.d + p.gap;
  a.y_stride = p.groups * p.d + p.gap / 2;
  a.weight_offset = p.weight_offset;
  return a;
}

std::string words(std::array<DType, 3> types) {
  return type_word(types[kX]) + "_" + type_word(types[kY]) + "_" + type_word(types[kW]);
}

/// in_place: y is x (same stride and type).
OpCase forward_case(const Problem& p, std::array<DType, 3> types, bool in_place) {
  NormForward a = forward_args(p, types);
  if (in_place) a.y_stride = a.x_stride;
  const size_t y = in_place ? 0 : 5;
  OpCase c = {
      "norm_forward", p.name + "/" + words(types) + (in_place ? "/in_place" : ""), {}, nullptr, nullptr};
  c.operands = {in_place ? in_out("x", a.x_type, a.rows * a.x_stride, 1, 2.0)
                         : input("x", a.x_type, a.rows * a.x_stride, 1, 2.0),
                input("weight", a.weight_type, a.d, 2), input("bias", a.weight_type, a.d, 3),
                output("mean", DType::kF32, a.rows * a.groups, 1e-5),
                output("rstd", DType::kF32, a.rows * a.groups)};
  if (!in_place) c.operands.push_back(output("y", a.y_type, a.rows * a.y_stride));
  c.fast = [=](const FastCall& call) {
    NormForward args = a;
    args.x = call.data[0];
    args.y = call.data[y];
    args.weight = call.data[1];
    args.bias = p.bias ? call.data[2] : nullptr;
    args.mean = p.mean ? call.as<float>(3) : nullptr;
    args.rstd = call.as<float>(4);
    call.table.norm_forward(args, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    norm_forward_reference(a, v[y].data(), p.mean ? v[3].data() : nullptr, v[4].data(), v[0].data(),
                           v[1].data(), p.bias ? v[2].data() : nullptr);
  };
  return c;
}

/// The norm of x + dropout(branch), which the same pass computes. in_place: the sum is x.
struct SumProblem {
  std::string name;
  int64_t batch, seq, d;
  float p = 0;
  bool mean = true, in_place = false;
};

std::vector<SumProblem> sum_problems() {
  return {{"sum", 2, 19, 100},
          {"sum_dropout", 3, 11, 257, 0.3f, false},
          {"sum_dropout_in_place", 2, 5, 64, 0.5f, true, true},
          {"sum_one_element", 3, 1, 1},
          {"sum_long_rows", 1, 5, 1600, 0.1f},
          {"sum_odd_long_rows", 1, 3, 9001, 0.25f, false, true}};
}

/// x and the sum have `type`. The norm reads the stored sum. If it is bf16, dropout multiplies by 2, which is
/// exact, so that no rounding of f32 decides between two neighbours in bf16.
OpCase sum_case(const SumProblem& p, DType type, DType branch_type, DType y_type, DType weight_type) {
  const auto samples = std::make_shared<std::vector<uint64_t>>();
  for (int64_t i = 0; i < p.batch; ++i) samples->push_back(41 + 900 * static_cast<uint64_t>(i));
  NormForward a;
  a.x_type = type, a.y_type = y_type, a.weight_type = weight_type;
  a.rows = p.batch * p.seq, a.d = p.d;
  a.x_stride = a.y_stride = p.d;
  a.residual.type = type, a.residual.branch_type = branch_type;
  a.residual.rows = a.rows, a.residual.d = p.d, a.residual.seq = p.seq;
  const float dropped = type == DType::kBf16 && p.p > 0 ? 0.5f : p.p;
  a.residual.dropout = {dropped, 0x0123456789abcdefull, samples->data()};
  const int64_t n = a.rows * p.d;
  const size_t sum = p.in_place ? 0 : 7;
  OpCase c = {"norm_forward",
              p.name + "/" + type_word(type) + "_" + words({branch_type, y_type, weight_type}),
              {},
              nullptr,
              nullptr};
  c.operands = {p.in_place ? in_out("x", type, n, 1, 2.0, 1e-6) : input("x", type, n, 1, 2.0),
                input("branch", branch_type, n, 2),
                input("weight", weight_type, p.d, 3),
                input("bias", weight_type, p.d, 4),
                output("mean", DType::kF32, a.rows, 1e-5),
                output("rstd", DType::kF32, a.rows),
                output("y", y_type, n)};
  if (!p.in_place) c.operands.push_back(output("sum", type, n, 1e-6));
  c.fast = [=, keep = samples](const FastCall& call) {
    NormForward args = a;
    args.residual.x = call.data[0];
    args.residual.branch = call.data[1];
    args.x = args.residual.y = call.data[sum];
    args.weight = call.data[2];
    args.bias = p.mean ? call.data[3] : nullptr;
    args.mean = p.mean ? call.as<float>(4) : nullptr;
    args.rstd = call.as<float>(5);
    args.y = call.data[6];
    call.table.norm_forward(args, call.stream);
  };
  c.reference = [=, keep = samples](RealOperands& v) {
    residual_forward_reference(a.residual, v[sum].data(), v[0].data(), v[1].data());
    for (double& x : v[sum]) x = rounded(x, type);
    norm_forward_reference(a, v[6].data(), p.mean ? v[4].data() : nullptr, v[5].data(), v[sum].data(),
                           v[2].data(), p.mean ? v[3].data() : nullptr);
  };
  return c;
}

NormBackward backward_args(const Problem& p, std::array<DType, 3> types, bool accumulate) {
  NormBackward a;
  a.x_type = types[kX];
  a.dy_type = types[kY];
  a.dx_type = accumulate ? DType::kF32 : types[kY];
  a.weight_type = types[kW];
  a.rows = p.rows;
  a.groups = p.groups;
  a.d = p.d;
  a.x_stride = p.groups * p.d + p.gap;
  a.dy_stride = a.dx_stride = p.groups * p.d + p.gap / 2;
  a.weight_offset = p.weight_offset;
  a.dx_accumulate = a.weights_accumulate = accumulate;
  a.y_type = types[kY];
  a.y_stride = p.groups * p.d + p.gap;
  return a;
}

/// in_place: dx is dy. accumulate: dx (f32), dweight and dbias accumulate. round: also writes dx as bf16.
OpCase backward_case(const Problem& p, std::array<DType, 3> types, bool in_place, bool accumulate,
                     bool round = false) {
  const NormBackward a = backward_args(p, types, accumulate);
  const size_t dx = in_place ? 0 : 7;
  const std::string suffix = std::string(in_place     ? "/in_place"
                                         : accumulate ? "/accumulate"
                                                      : "") +
                             (round ? "/round" : "");
  OpCase c = {"norm_backward", p.name + "/" + words(types) + suffix, {}, nullptr, nullptr};
  const int64_t vectors = a.rows * a.groups;
  const auto sums = [&](const char* name) {
    return accumulate ? in_out(name, DType::kF32, a.d, 7, 1.0, 1e-5) : output(name, DType::kF32, a.d, 1e-5);
  };
  c.operands = {in_place ? in_out("dy", a.dy_type, a.rows * a.dy_stride, 1, 1.0, 1e-5)
                         : input("dy", a.dy_type, a.rows * a.dy_stride, 1),
                input("x", a.x_type, a.rows * a.x_stride, 2, 2.0),
                input("weight", a.weight_type, a.d, 3),
                input("mean", DType::kF32, vectors, 4, 0.1),
                input("rstd", DType::kF32, vectors, 5, 0.0),
                sums("dweight"),
                sums("dbias")};
  for (double& x : c.operands[4].value) x = 0.5;
  if (!in_place) {
    c.operands.push_back(accumulate ? in_out("dx", a.dx_type, a.rows * a.dx_stride, 6, 1.0, 1e-5)
                                    : output("dx", a.dx_type, a.rows * a.dx_stride, 1e-5));
  }
  if (accumulate) {  // as in a residual stream: recomputes y
    c.operands.push_back(input("bias", a.weight_type, a.d, 8));
    c.operands.push_back(output("y", a.y_type, a.rows * a.y_stride));
  }
  c.narrow = round;
  const size_t rounded = c.operands.size();
  if (round) c.operands.push_back(output("rounded", DType::kBf16, a.rows * a.dx_stride, 1e-5));
  c.fast = [=](const FastCall& call) {
    NormBackward args = a;
    args.dy = call.data[0];
    args.x = call.data[1];
    args.weight = call.data[2];
    args.mean = p.mean ? call.as<float>(3) : nullptr;
    args.rstd = call.as<float>(4);
    args.dweight = call.as<float>(5);
    args.dbias = p.bias ? call.as<float>(6) : nullptr;
    args.dx = call.data[dx];
    if (accumulate) {
      args.bias = p.bias ? call.data[8] : nullptr;
      args.y = call.data[9];
    }
    if (round) args.rounded = call.data[rounded];
    args.workspace = call.workspace(call.table.norm_backward_workspace_bytes(args, call.stream.num_workers));
    call.table.norm_backward(args, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    const std::vector<double> dy = v[0];  // dx may be dy
    norm_backward_reference(a, v[dx].data(), v[5].data(), p.bias ? v[6].data() : nullptr, dy.data(),
                            v[1].data(), v[2].data(), p.mean ? v[3].data() : nullptr, v[4].data(),
                            accumulate ? v[9].data() : nullptr, accumulate && p.bias ? v[8].data() : nullptr);
    for (int64_t i = 0; round && i < a.rows * a.dx_stride; ++i)
      if (i % a.dx_stride < p.groups * p.d) v[rounded][i] = v[dx][i];  // gaps between rows stay NaN
  };
  return c;
}

GradientCase gradient_case(const Problem& p) {
  const std::array<DType, 3> types = {DType::kF32, DType::kF32, DType::kF32};
  const NormForward f = forward_args(p, types);
  const NormBackward b = backward_args(p, types, false);
  const int64_t vectors = p.rows * p.groups;
  GradientCase c = {"norm_backward", p.name, {}, nullptr, nullptr};
  c.inputs = {random_values(p.rows * f.x_stride, 1, 2.0), random_values(p.d, 2),
              random_values(p.bias ? p.d : 0, 3)};
  c.forward = [=](const ComplexOperands& in) {
    std::vector<Complex> y(p.rows * f.y_stride), mean(vectors), rstd(vectors);
    norm_forward_reference(f, y.data(), p.mean ? mean.data() : nullptr, rstd.data(), in[0].data(),
                           in[1].data(), p.bias ? in[2].data() : nullptr);
    return ComplexOperands{y};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dout) {
    std::vector<double> y(p.rows * f.y_stride), mean(vectors), rstd(vectors);
    std::vector<double> dx(in[0].size()), dweight(p.d), dbias(in[2].size());
    NormBackward args = b;
    args.dx_stride = f.x_stride;
    args.dy_stride = f.y_stride;
    double* mu = p.mean ? mean.data() : nullptr;
    norm_forward_reference(f, y.data(), mu, rstd.data(), in[0].data(), in[1].data(),
                           p.bias ? in[2].data() : nullptr);
    norm_backward_reference(args, dx.data(), dweight.data(), p.bias ? dbias.data() : nullptr, dout[0].data(),
                            in[0].data(), in[1].data(), mu, rstd.data());
    return RealOperands{dx, dweight, dbias};
  };
  return c;
}

}  // namespace op_cases_norm

void add_norm_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_norm;
  for (const Problem& p : problems()) {
    for (int bits = 0; bits < 8; ++bits) {
      const auto type = [&](int bit) { return (bits >> bit & 1) != 0 ? DType::kBf16 : DType::kF32; };
      const std::array<DType, 3> types = {type(kX), type(kY), type(kW)};
      cases.push_back(forward_case(p, types, false));
      if (types[kX] == types[kY]) cases.push_back(forward_case(p, types, true));
      cases.push_back(backward_case(p, types, false, false));
      cases.push_back(backward_case(p, types, true, false));
      cases.push_back(backward_case(p, types, false, true));
      cases.push_back(backward_case(p, types, false, true, true));
    }
    cases.push_back(backward_case(p, {DType::kBf16, DType::kF32, DType::kF32}, false, false, true));
    cases.push_back(backward_case(p, {DType::kF32, DType::kF32, DType::kF32}, true, false, true));
  }
  for (const Problem& p : problems()) {  // halves come with weights of f32
    for (int bits = 1; bits < 4; ++bits) {
      const auto type = [&](int bit) { return (bits >> bit & 1) != 0 ? DType::kF16 : DType::kF32; };
      const std::array<DType, 3> types = {type(0), type(1), DType::kF32};
      cases.push_back(forward_case(p, types, false));
      if (types[kX] == types[kY]) cases.push_back(forward_case(p, types, true));
      for (const bool first : {false, true})
        for (const bool second : {false, true})
          if (!first || !second) cases.push_back(backward_case(p, types, first, second));
    }
  }
  for (const SumProblem& p : sum_problems()) {
    for (const DType type : {DType::kF32, DType::kBf16}) {
      for (const DType branch : {DType::kF32, DType::kBf16}) {
        cases.push_back(sum_case(p, type, branch, DType::kF32, DType::kF32));
        cases.push_back(sum_case(p, type, branch, DType::kBf16, DType::kF32));
        cases.push_back(sum_case(p, type, branch, DType::kBf16, DType::kBf16));
      }
    }
    cases.push_back(sum_case(p, DType::kF32, DType::kF16, DType::kF16, DType::kF32));
  }
}

void add_norm_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_norm;
  cases.push_back(gradient_case({.name = "layer_norm", .rows = 3, .groups = 1, .d = 7}));
  cases.push_back(gradient_case({.name = "rms_norm_offset_groups",
                                 .rows = 2,
                                 .groups = 3,
                                 .d = 5,
                                 .gap = 4,
                                 .mean = false,
                                 .bias = false,
                                 .weight_offset = 1}));
}

}  // namespace hawser::testing
