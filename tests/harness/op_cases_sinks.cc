// Rows of the op-case table for attention sinks.
#include <limits>

#include "kernels/cpu/attention_sinks_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_sinks {

using kernels::SinkBackward;
using kernels::SinkForward;
using kernels::SinkRows;

SinkRows sink_rows(int64_t batch, int64_t seq, int64_t heads, int64_t value_dim, int64_t gap) {
  SinkRows s;
  s.batch = batch, s.seq = seq, s.heads = heads, s.value_dim = value_dim;
  s.o_stride = heads * value_dim + gap;
  return s;
}

std::string name_of(const SinkRows& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.seq) + "x" + std::to_string(s.heads) + "_" +
         std::to_string(s.value_dim) + "/" + type_word(s.type);
}

/// One of several sinks is -infinity.
Operand sinks_of(const SinkRows& s) {
  Operand sinks = input("sinks", DType::kF32, s.heads, 1, 2.0);
  if (s.heads > 2) sinks.value[1] = -std::numeric_limits<double>::infinity();
  return sinks;
}

OpCase forward_case(SinkRows s, DType type) {
  s.type = type;
  OpCase c = {"sink_forward", name_of(s), {}, nullptr, nullptr};
  c.operands = {sinks_of(s), in_out("o", type, s.batch * s.seq * s.o_stride, 2),
                in_out("lse", DType::kF32, s.batch * s.heads * s.seq, 3, 2.0)};
  c.fast = [=](const FastCall& call) {
    SinkRows rows = s;
    rows.sinks = call.as<float>(0);
    call.table.sink_forward(SinkForward{rows, call.data[1], call.as<float>(2)}, call.stream);
  };
  c.reference = [=](RealOperands& x) { sink_forward_reference(s, x[1].data(), x[2].data(), x[0].data()); };
  return c;
}

/// The heads of the call are some of `columns`.
OpCase backward_case(SinkRows s, DType type, int64_t first, int64_t columns) {
  s.type = type;
  OpCase c = {"sink_backward",
              name_of(s) + "_" + std::to_string(first) + "of" + std::to_string(columns),
              {},
              nullptr,
              nullptr};
  const int64_t elements = s.batch * s.seq * s.o_stride;
  SinkBackward args;
  args.s = s, args.first = first, args.columns = columns;
  c.operands = {sinks_of(s), input("dout", type, elements, 2), input("o", type, elements, 3),
                input("lse", DType::kF32, s.batch * s.heads * s.seq, 4, 2.0),
                output("terms", DType::kF32, s.batch * s.seq * columns)};
  c.fast = [=](const FastCall& call) {
    SinkBackward a = args;
    a.s.sinks = call.as<float>(0);
    a.dout = call.data[1], a.o = call.data[2], a.lse = call.as<float>(3), a.terms = call.as<float>(4);
    call.table.sink_backward(a, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    sink_backward_reference(args, x[4].data(), x[1].data(), x[2].data(), x[3].data(), x[0].data());
  };
  return c;
}

}  // namespace op_cases_sinks

void add_sink_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_sinks;
  for (const DType type : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const SinkRows& s : {sink_rows(1, 1, 1, 1, 0), sink_rows(2, 5, 3, 7, 3), sink_rows(1, 70, 4, 64, 0),
                              sink_rows(3, 33, 2, 128, 8)}) {
      cases.push_back(forward_case(s, type));
      cases.push_back(backward_case(s, type, 0, s.heads));
      cases.push_back(backward_case(s, type, 2, s.heads + 3));
    }
  }
}

/// The gradient of a sink is the sum of its column of terms.
void add_sink_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_sinks;
  const SinkRows s = sink_rows(2, 3, 3, 4, 1);
  const int64_t elements = s.batch * s.seq * s.o_stride, heads = s.batch * s.heads * s.seq;
  const std::vector<double> o = random_values(elements, 2), lse = random_values(heads, 3);
  GradientCase c = {"sink_backward", "joined", {random_values(s.heads, 1)}, nullptr, nullptr};
  c.forward = [=](const ComplexOperands& in) {
    std::vector<Complex> joined(o.begin(), o.end()), all(lse.begin(), lse.end());
    sink_forward_reference(s, joined.data(), all.data(), in[0].data());
    return ComplexOperands{joined};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dout) {
    std::vector<double> joined = o, all = lse, terms(static_cast<size_t>(s.batch * s.seq * s.heads));
    sink_forward_reference(s, joined.data(), all.data(), in[0].data());
    SinkBackward a;
    a.s = s, a.columns = s.heads;
    sink_backward_reference(a, terms.data(), dout[0].data(), joined.data(), all.data(), in[0].data());
    RealOperands d = {std::vector<double>(static_cast<size_t>(s.heads))};
    for (size_t i = 0; i < terms.size(); ++i) d[0][i % d[0].size()] += terms[i];
    return d;
  };
  cases.push_back(c);
}

}  // namespace hawser::testing
