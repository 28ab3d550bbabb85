// Rows of the op-case table for routers. Logits are far from ties, so that every level and device makes the
// same choices; ties have separate cases.
#include "kernels/cpu/router_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace {

using kernels::RouterBackward;
using kernels::RouterBalance;
using kernels::RouterForward;
using kernels::RouterScore;
using kernels::RouterShape;
using kernels::RouterStatistics;
using kernels::RouterTally;

RouterShape shape_of(int64_t rows, int64_t experts, int64_t top_k, bool sigmoid, bool normalize,
                     int64_t groups = 1, int64_t top_groups = 1) {
  RouterShape s;
  s.rows = rows, s.experts = experts, s.top_k = top_k;
  s.groups = groups, s.top_groups = top_groups;
  s.score = sigmoid ? RouterScore::kSigmoid : RouterScore::kSoftmax;
  s.normalize = normalize;
  s.scale = sigmoid ? 1.75f : 1.0f;
  return s;
}

std::vector<RouterShape> shapes() {
  return {shape_of(1, 1, 1, true, false),        shape_of(3, 2, 1, false, true),
          shape_of(9, 6, 2, false, true),        shape_of(70, 8, 8, false, true),
          shape_of(33, 12, 4, true, true, 3, 2), shape_of(5, 37, 3, true, false),
          shape_of(130, 64, 8, false, false),    shape_of(4, 1024, 8, true, true, 8, 4),
          shape_of(7, 6, 2, true, true, 6, 3)};
}

std::string name_of(const RouterShape& s) {
  return std::to_string(s.rows) + "x" + std::to_string(s.experts) + "/top" + std::to_string(s.top_k) +
         (s.score == RouterScore::kSigmoid ? "/sigmoid" : "/softmax") + (s.normalize ? "/normalised" : "") +
         (s.groups > 1 ? "/groups" + std::to_string(s.groups) : "");
}

/// Returns logits whose order is clear: distinct multiples of a step, shuffled, plus noise below half a step.
std::vector<double> logits_of(const RouterShape& s, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> z;
  for (int64_t r = 0; r < s.rows; ++r) {
    std::vector<double> row;
    for (int64_t e = 0; e < s.experts; ++e)
      row.push_back(6.0 * static_cast<double>(e) / static_cast<double>(s.experts) - 3.0);
    std::shuffle(row.begin(), row.end(), random);
    for (const double x : row) z.push_back(rounded(x, DType::kF32));
  }
  return z;
}

std::vector<double> row_of(const std::vector<double>& x, int64_t row, int64_t width) {
  return {x.begin() + row * width, x.begin() + (row + 1) * width};
}

/// Returns the choices of every row, from the logits `z` and the bias, which may be empty.
std::vector<double> choices_of(const RouterShape& s, const std::vector<double>& z,
                               const std::vector<double>& bias) {
  std::vector<double> all;
  for (int64_t r = 0; r < s.rows; ++r) {
    double unused = 0;
    const std::vector<double> scores = kernels::router_scores_reference(s, z.data() + r * s.experts, &unused);
    for (const int64_t e : kernels::choice_reference(s, scores, bias.empty() ? nullptr : bias.data()))
      all.push_back(static_cast<double>(e));
  }
  return all;
}

std::vector<int64_t> experts_of(const std::vector<double>& choices, int64_t row, int64_t top_k) {
  std::vector<int64_t> experts;
  for (const double e : row_of(choices, row, top_k)) experts.push_back(static_cast<int64_t>(e));
  return experts;
}

OpCase forward_case(const RouterShape& s, const std::string& name, std::vector<double> z,
                    std::vector<double> bias) {
  OpCase c = {"router_forward", name, {}, nullptr, nullptr};
  Operand logits = input("logits", DType::kF32, s.rows * s.experts, 1);
  logits.value = std::move(z);
  Operand biases = input("bias", DType::kF32, static_cast<int64_t>(bias.size()), 2);
  biases.value = std::move(bias);
  c.operands = {logits, biases, output("choice", DType::kI32, s.rows * s.top_k, 0),
                output("weights", DType::kF32, s.rows * s.top_k, 2e-6)};
  const bool has_bias = !biases.value.empty();
  c.fast = [=](const FastCall& call) {
    RouterForward a;
    a.choice = call.as<int32_t>(2), a.weights = call.as<float>(3);
    a.logits = call.as<float>(0), a.bias = has_bias ? call.as<float>(1) : nullptr;
    a.shape = s;
    call.table.router_forward(a, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    x[2] = choices_of(s, x[0], x[1]);
    for (int64_t r = 0; r < s.rows; ++r) {
      double unused = 0;
      const auto scores = kernels::router_scores_reference(s, x[0].data() + r * s.experts, &unused);
      const auto weights = kernels::router_weights_reference(s, scores, experts_of(x[2], r, s.top_k));
      std::copy(weights.begin(), weights.end(), x[3].begin() + r * s.top_k);
    }
  };
  return c;
}

/// Returns biases in steps of a twentieth, so that a bias changes choices but causes no ties.
std::vector<double> biases_of(int64_t experts) {
  std::vector<double> bias;
  for (int64_t e = 0; e < experts; ++e)
    bias.push_back(rounded(0.0503 * static_cast<double>(e * 7 % 11 - 5), DType::kF32));
  return bias;
}

/// The place of the call's rows in a batch: they begin at first_row, in `batch` rows of `seq` positions.
struct Placed {
  int64_t batch, seq, first_row;
};

OpCase statistics_case(const RouterShape& s, const Placed& at) {
  OpCase c = {"router_statistics", name_of(s) + "/from" + std::to_string(at.first_row), {}, nullptr, nullptr};
  Operand logits = input("logits", DType::kF32, s.rows * s.experts, 1);
  logits.value = logits_of(s, 5);
  const int64_t width = 2 * s.experts + 1;
  c.operands = {logits, whole_numbers("choice", choices_of(s, logits.value, {})),
                output("out", DType::kF32, at.batch * width, 4e-6)};
  c.fast = [=](const FastCall& call) {
    RouterStatistics a;
    a.out = call.as<float>(2);
    a.logits = call.as<float>(0), a.choice = call.as<int32_t>(1);
    a.batch = at.batch, a.seq = at.seq, a.first_row = at.first_row;
    a.shape = s;
    a.workspace = static_cast<float*>(call.workspace(4 * router_statistics_workspace(a)));
    call.table.router_statistics(a, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    std::fill(x[2].begin(), x[2].end(), 0.0);
    for (int64_t r = 0; r < s.rows; ++r) {
      double log_sum_exp = 0, sum = 0;
      const auto scores = kernels::router_scores_reference(s, x[0].data() + r * s.experts, &log_sum_exp);
      for (const double score : scores) sum += score;
      double* const out = x[2].data() + (at.first_row + r) / at.seq * width;
      for (const int64_t e : experts_of(x[1], r, s.top_k)) out[e] += 1;
      for (int64_t e = 0; e < s.experts; ++e) out[s.experts + e] += scores[static_cast<size_t>(e)] / sum;
      out[2 * s.experts] += log_sum_exp * log_sum_exp;
    }
  };
  return c;
}

OpCase tally_case(const RouterShape& s, int64_t batch, int64_t positions) {
  OpCase c = {"router_tally", name_of(s), {}, nullptr, nullptr};
  const int64_t width = 2 * s.experts + 1, words = s.experts + kernels::kTallyWords;
  Operand statistics = input("statistics", DType::kF32, batch * width, 1);
  for (size_t i = 0; i < statistics.value.size(); ++i) statistics.value[i] = static_cast<double>(i * 31 % 17);
  std::vector<double> offsets(static_cast<size_t>(s.experts) + 1, 0.0), before;
  offsets.back() = static_cast<double>(s.rows * s.top_k - 3);
  for (int64_t i = 0; i < words; ++i) before.push_back(static_cast<double>(1000 * i));
  c.operands = {statistics, whole_numbers("offsets", offsets),
                whole_numbers("tally", before, Role::kInOut, DType::kI64)};
  c.operands.back().tolerance = 1e-15;
  c.fast = [=](const FastCall& call) {
    RouterTally a;
    a.tally = call.as<int64_t>(2), a.statistics = call.as<float>(0), a.offsets = call.as<int32_t>(1);
    a.batch = batch, a.positions = positions, a.rounds = 2;
    a.shape = s;
    call.table.router_tally(a, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (int64_t b = 0; b < batch; ++b) {
      double balance = 0;
      for (int64_t e = 0; e < s.experts; ++e) {
        const double count = x[0][static_cast<size_t>(b * width + e)];
        x[2][static_cast<size_t>(e)] += count;
        balance += count * x[0][static_cast<size_t>(b * width + s.experts + e)];
      }
      const double share =
          static_cast<double>(s.experts) / static_cast<double>(s.top_k * positions * positions);
      x[2][static_cast<size_t>(s.experts)] += std::floor(balance * share / kernels::kTallyBalanceUnit + 0.5);
      x[2][static_cast<size_t>(s.experts) + 1] +=
          std::floor(x[0][static_cast<size_t>(b * width + 2 * s.experts)] / kernels::kTallySquaresUnit + 0.5);
    }
    x[2][static_cast<size_t>(s.experts + kernels::kTallyDropped)] += 3;
    x[2].back() += 2;
  };
  return c;
}

/// Returns arguments with both losses.
RouterBackward backward_of(const RouterShape& s) {
  RouterBackward a;
  a.shape = s;
  a.seq = std::max<int64_t>(s.rows / 2, 1);
  a.balance_scale = 0.03125f, a.z_scale = 0.0625f;
  return a;
}

std::vector<double> counts_of(const RouterBackward& a) {
  const int64_t batch = (a.shape.rows + a.seq - 1) / a.seq;
  std::vector<double> counts;
  for (int64_t i = 0; i < batch * (2 * a.shape.experts + 1); ++i)
    counts.push_back(static_cast<double>(i % 5));
  return counts;
}

const double* counts_at(const RouterBackward& a, const std::vector<double>& counts, int64_t row) {
  return a.balance_scale == 0 ? nullptr : counts.data() + row / a.seq * (2 * a.shape.experts + 1);
}

OpCase backward_case(const RouterShape& s) {
  const RouterBackward args = backward_of(s);
  OpCase c = {"router_backward", name_of(s), {}, nullptr, nullptr};
  Operand logits = input("logits", DType::kF32, s.rows * s.experts, 1),
          counts = input("statistics", DType::kF32, 1, 1);
  logits.value = logits_of(s, 6), counts.value = counts_of(args);
  std::vector<double> places(static_cast<size_t>(s.rows * s.top_k), 0.0);
  if (s.top_k > 1) places[1] = -1;
  c.operands = {logits,
                whole_numbers("choice", choices_of(s, logits.value, {})),
                whole_numbers("place", places),
                input("dweights", DType::kF32, s.rows * s.top_k, 3),
                counts,
                output("dlogits", DType::kF32, s.rows * s.experts, 1e-5)};
  c.fast = [=](const FastCall& call) {
    RouterBackward a = args;
    a.dlogits = call.as<float>(5), a.logits = call.as<float>(0), a.choice = call.as<int32_t>(1);
    a.place = call.as<int32_t>(2), a.dweights = call.as<float>(3), a.statistics = call.as<float>(4);
    call.table.router_backward(a, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    for (int64_t r = 0; r < s.rows; ++r) {
      std::vector<double> dweights = row_of(x[3], r, s.top_k);
      for (int64_t j = 0; j < s.top_k; ++j)
        if (x[2][static_cast<size_t>(r * s.top_k + j)] < 0) dweights[static_cast<size_t>(j)] = 0;
      const auto dz =
          kernels::router_backward_reference(args, x[0].data() + r * s.experts, experts_of(x[1], r, s.top_k),
                                             dweights, counts_at(args, x[4], r));
      std::copy(dz.begin(), dz.end(), x[5].begin() + r * s.experts);
    }
  };
  return c;
}

OpCase balance_case(int64_t experts, int64_t first, int64_t count) {
  OpCase c = {
      "router_balance", std::to_string(experts) + "/from" + std::to_string(first), {}, nullptr, nullptr};
  std::vector<double> load;
  for (int64_t e = 0; e < experts; ++e) load.push_back(static_cast<double>(10 + e % 3 - 1));
  c.operands = {whole_numbers("load", load, Role::kInput, DType::kI64),
                in_out("bias", DType::kF32, count, 2)};
  c.fast = [=](const FastCall& call) {
    call.table.router_balance({call.as<float>(1), call.as<int64_t>(0), experts, first, count, 0.001f},
                              call.stream);
  };
  c.reference = [=](RealOperands& x) {
    double mean = 0;
    for (const double l : x[0]) mean += l / static_cast<double>(experts);
    for (int64_t i = 0; i < count; ++i) {
      const double above = x[0][static_cast<size_t>(first + i)] - mean;
      if (std::abs(above) > 1e-9) x[1][static_cast<size_t>(i)] += above > 0 ? -0.001 : 0.001;
    }
  };
  return c;
}

/// The derivative of weights and losses with respect to the logits; the real parts fix the choices.
GradientCase gradient_case(const RouterShape& s) {
  const RouterBackward args = backward_of(s);
  const std::vector<double> counts = counts_of(args);
  GradientCase c = {"router_backward", name_of(s), {logits_of(s, 6)}, nullptr, nullptr};
  const std::vector<double> choices = choices_of(s, c.inputs[0], {});
  c.forward = [=](const ComplexOperands& in) {
    std::vector<Complex> weights, losses;
    for (int64_t r = 0; r < s.rows; ++r) {
      Complex log_sum_exp = 0;
      const auto scores = kernels::router_scores_reference(s, in[0].data() + r * s.experts, &log_sum_exp);
      const auto of_row = kernels::router_weights_reference(s, scores, experts_of(choices, r, s.top_k));
      weights.insert(weights.end(), of_row.begin(), of_row.end());
      losses.push_back(
          kernels::router_losses_reference(args, scores, log_sum_exp, counts_at(args, counts, r)));
    }
    return ComplexOperands{weights, losses};
  };
  c.backward = [=](const RealOperands& in, const RealOperands& dout) {
    std::vector<double> dz;
    for (int64_t r = 0; r < s.rows; ++r) {
      RouterBackward scaled = args;  // scaled by the gradient of the row's losses
      scaled.balance_scale *= static_cast<float>(dout[1][static_cast<size_t>(r)]);
      scaled.z_scale *= static_cast<float>(dout[1][static_cast<size_t>(r)]);
      const auto row = kernels::router_backward_reference(
          scaled, in[0].data() + r * s.experts, experts_of(choices, r, s.top_k), row_of(dout[0], r, s.top_k),
          counts_at(args, counts, r));
      dz.insert(dz.end(), row.begin(), row.end());
    }
    return RealOperands{dz};
  };
  return c;
}

}  // namespace

void add_router_cases(std::vector<OpCase>& cases) {
  for (const RouterShape& s : shapes()) {
    cases.push_back(forward_case(s, name_of(s), logits_of(s, 1), {}));
    if (s.score == RouterScore::kSigmoid)
      cases.push_back(forward_case(s, name_of(s) + "/bias", logits_of(s, 2), biases_of(s.experts)));
    cases.push_back(statistics_case(s, {1, s.rows, 0}));
    cases.push_back(statistics_case(s, {3, (s.rows + 1) / 2, s.rows / 2}));
    cases.push_back(tally_case(s, 2, 9));
    cases.push_back(backward_case(s));
    cases.push_back(balance_case(s.experts, s.experts / 3, s.experts - s.experts / 3));
  }
  const RouterShape ties = shape_of(2, 9, 3, true, true, 3, 2);
  cases.push_back(forward_case(ties, "ties_go_to_the_lower", std::vector<double>(18, 0.5), {}));
  std::vector<double> negative(9, -2.0);  // masked groups are below even these
  negative[1] = -1.5, negative[4] = -1.25;
  cases.push_back(forward_case(ties, "bias_below_minus_scores", logits_of(ties, 3), negative));
}

void add_router_gradients(std::vector<GradientCase>& cases) {
  for (const RouterShape& s : shapes())
    if (s.experts < 64 && s.rows < 64) cases.push_back(gradient_case(s));
}

}  // namespace hawser::testing
