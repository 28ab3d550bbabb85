// Rows of the op-case table for the cross entropy and the soft-cap of logits.
#include <memory>

#include "kernels/cpu/cross_entropy_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_cross_entropy {

using kernels::CrossEntropy;

struct Problem {
  std::string name;
  int64_t rows, vocab;
  float softcap = 0;
  double spread = 3.0;
  bool weights = false;
  kernels::Teacher teacher = {};
};

/// Returns targets; every third row is masked.
std::shared_ptr<std::vector<int32_t>> targets_of(const Problem& p) {
  auto targets = std::make_shared<std::vector<int32_t>>();
  for (int64_t r = 0; r < p.rows; ++r) {
    targets->push_back(r % 3 == 2 ? -100 : static_cast<int32_t>((r * 7919 + p.vocab - 1) % p.vocab));
  }
  return targets;
}

/// Returns the weights of the rows, some of them 0; empty: none.
std::shared_ptr<std::vector<float>> weights_of(const Problem& p) {
  auto weights = std::make_shared<std::vector<float>>();
  for (int64_t r = 0; r < p.rows && p.weights; ++r)
    weights->push_back(0.375f * static_cast<float>((r + 1) % 4));
  return weights;
}
const float* given(const std::vector<float>& weights) { return weights.empty() ? nullptr : weights.data(); }

constexpr float kGradScale = 0.25f;

/// How logits are stored: rows of a narrow type have a stride longer than their length.
struct Storage {
  DType type = DType::kF32;
  int64_t gap = 0;
};

OpCase loss_case(const Problem& p, bool backward, Storage storage = {}) {
  const auto targets = targets_of(p);
  const auto weights = weights_of(p);
  CrossEntropy a;
  a.targets = targets->data();
  a.weights = given(*weights);
  a.rows = p.rows;
  a.vocab = p.vocab;
  a.softcap = p.softcap;
  a.backward = backward;
  a.type = storage.type;
  a.stride = p.vocab + storage.gap;
  const std::string name = p.name + (storage.type == DType::kF32 ? "" : "/" + type_word(storage.type));
  OpCase c = {"cross_entropy", name + (backward ? "/backward" : "/forward"), {}, nullptr, nullptr};
  c.operands = {in_out("logits", storage.type, p.rows * a.stride, 1, p.spread),
                output("losses", DType::kF32, p.rows)};
  c.fast = [a, targets, weights](const FastCall& call) {
    CrossEntropy args = a;
    args.logits = call.data[0];
    args.losses = call.as<float>(1);
    args.grad_scale = &kGradScale;
    call.table.cross_entropy(args, call.stream);
  };
  c.reference = [a, targets, weights](RealOperands& x) {
    cross_entropy_reference(a, x[1].data(), x[0].data(), static_cast<double>(kGradScale));
  };
  return c;
}

/// Returns how ranks divide the vocabulary: the first id of each rank, then the end. One rank has no ids.
std::vector<int64_t> bounds_of(int64_t vocab) { return {0, vocab / 3, vocab / 3, vocab - 1, vocab}; }

/// Calls fn(own, first id, offset of the rank's statistics) for each rank, whose logits start at its first
/// id.
template <typename Fn>
void each_rank(const CrossEntropy& whole, char* logits, Fn fn) {
  const std::vector<int64_t> bounds = bounds_of(whole.vocab);
  for (size_t rank = 0; rank + 1 < bounds.size(); ++rank) {
    CrossEntropy own = whole;
    own.vocab = bounds[rank + 1] - bounds[rank];
    own.logits = logits + bounds[rank] * dtype_bytes(own.type);
    fn(own, bounds[rank], static_cast<int64_t>(rank) * whole.rows * kernels::kRowStatistics);
  }
}

int64_t ranks_of(int64_t vocab) { return static_cast<int64_t>(bounds_of(vocab).size()) - 1; }

/// Computes the statistics of all ranks, one after the other.
OpCase statistics_case(const Problem& p, Storage storage = {}) {
  const auto targets = targets_of(p);
  CrossEntropy a;
  a.targets = targets->data();
  a.rows = p.rows, a.vocab = p.vocab, a.softcap = p.softcap;
  a.type = storage.type, a.stride = p.vocab + storage.gap;
  const std::string name = p.name + (storage.type == DType::kF32 ? "" : "/" + type_word(storage.type));
  OpCase c = {"cross_entropy_statistics", name, {}, nullptr, nullptr};
  c.operands = {input("logits", storage.type, p.rows * a.stride, 1, p.spread),
                output("statistics", DType::kF32, ranks_of(p.vocab) * p.rows * kernels::kRowStatistics)};
  c.fast = [a, targets](const FastCall& call) {
    each_rank(a, call.as<char>(0), [&](const CrossEntropy& own, int64_t first, int64_t at) {
      call.table.cross_entropy_statistics({own, first, call.as<float>(1) + at}, call.stream);
    });
  };
  c.reference = [a, targets](RealOperands& x) {
    each_rank(a, nullptr, [&](const CrossEntropy& own, int64_t first, int64_t at) {
      kernels::cross_entropy_statistics_reference({own, first, nullptr}, x[1].data() + at,
                                                  x[0].data() + first);
    });
  };
  return c;
}

/// Computes losses and gradients of all ranks, one after the other, and compares them with those of complete
/// rows.
OpCase divided_case(const Problem& p, bool backward, Storage storage = {}) {
  OpCase c = loss_case(p, backward, storage);
  c.op = "cross_entropy_divided";
  const auto targets = targets_of(p);
  const auto weights = weights_of(p);
  CrossEntropy a;
  a.targets = targets->data(), a.weights = given(*weights);
  a.rows = p.rows, a.vocab = p.vocab, a.softcap = p.softcap, a.backward = backward;
  a.type = storage.type, a.stride = p.vocab + storage.gap;
  c.fast = [a, targets, weights](const FastCall& call) {
    CrossEntropy whole = a;
    whole.losses = call.as<float>(1), whole.grad_scale = &kGradScale;
    auto* const statistics = static_cast<float*>(call.workspace(
        ranks_of(a.vocab) * a.rows * kernels::kRowStatistics * static_cast<int64_t>(sizeof(float))));
    each_rank(whole, call.as<char>(0), [&](const CrossEntropy& own, int64_t first, int64_t at) {
      call.table.cross_entropy_statistics({own, first, statistics + at}, call.stream);
    });
    each_rank(whole, call.as<char>(0), [&](const CrossEntropy& own, int64_t first, int64_t) {
      call.table.cross_entropy_divided({own, first, statistics, ranks_of(a.vocab)}, call.stream);
    });
  };
  return c;
}

OpCase soft_cap_case(int64_t n, float cap) {
  OpCase c = {"soft_cap", std::to_string(n), {}, nullptr, nullptr};
  c.operands = {in_out("x", DType::kF32, n, 1, 20.0)};
  c.fast = [=](const FastCall& call) { call.table.soft_cap({call.as<float>(0), n, cap}, call.stream); };
  c.reference = [=](RealOperands& x) {
    for (double& z : x[0]) z = kernels::soft_cap_reference(static_cast<double>(cap), z);
  };
  return c;
}

GradientCase gradient_case(const Problem& p) {
  const auto targets = targets_of(p);
  const auto weights = weights_of(p);
  CrossEntropy a;
  a.targets = targets->data();
  a.weights = given(*weights);
  a.rows = p.rows;
  a.vocab = p.vocab;
  a.softcap = p.softcap;
  a.teacher = p.teacher;
  GradientCase c = {"cross_entropy", p.name, {random_values(p.rows * p.vocab, 2, 2.0)}, nullptr, nullptr};
  c.forward = [a, targets, weights](const ComplexOperands& in) {
    std::vector<Complex> logits = in[0], losses(static_cast<size_t>(a.rows));
    cross_entropy_reference(a, losses.data(), logits.data(), 1.0);
    return ComplexOperands{losses};
  };
  // The op gives the gradient of the sum of losses; the gradient of each row is scaled by the gradient by its
  // loss.
  c.backward = [a, targets, weights](const RealOperands& in, const RealOperands& dout) {
    CrossEntropy args = a;
    args.backward = true;
    std::vector<double> logits = in[0], losses(static_cast<size_t>(a.rows));
    cross_entropy_reference(args, losses.data(), logits.data(), 1.0);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] *= dout[0][i / static_cast<size_t>(a.vocab)];
    return RealOperands{logits};
  };
  return c;
}

}  // namespace op_cases_cross_entropy

void add_cross_entropy_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_cross_entropy;
  const std::vector<Problem> problems = {
      {.name = "one_word", .rows = 2, .vocab = 1},
      {.name = "bytes", .rows = 40, .vocab = 256},
      {.name = "odd", .rows = 7, .vocab = 77, .softcap = 4.0f},
      {.name = "large", .rows = 3, .vocab = 50257},
      {.name = "largest", .rows = 2, .vocab = 151936, .softcap = 30.0f, .spread = 10.0},
      {.name = "sharp", .rows = 5, .vocab = 9001, .spread = 40.0},
      {.name = "weights", .rows = 40, .vocab = 256, .weights = true},
      {.name = "weights/odd", .rows = 7, .vocab = 77, .softcap = 4.0f, .weights = true},
  };
  for (const Problem& p : problems) {
    cases.push_back(loss_case(p, false));
    cases.push_back(loss_case(p, true));
    cases.push_back(statistics_case(p));
    cases.push_back(divided_case(p, false));
    cases.push_back(divided_case(p, true));
  }
  // Logits are stored in the form that the following products read.
  for (const size_t i : {0, 2, 3, 7}) {
    cases.push_back(statistics_case(problems[i], {DType::kBf16, 64 - problems[i].vocab % 64}));
    cases.back().narrow = true;
    for (const bool backward : {false, true}) {
      cases.push_back(loss_case(problems[i], backward, {DType::kBf16, 64 - problems[i].vocab % 64}));
      cases.back().narrow = true;
      cases.push_back(divided_case(problems[i], backward, {DType::kBf16, 64 - problems[i].vocab % 64}));
      cases.back().narrow = true;
    }
  }
  cases.push_back(soft_cap_case(1, 30.0f));
  cases.push_back(soft_cap_case(20011, 7.5f));
}

void add_cross_entropy_gradients(std::vector<GradientCase>& cases) {
  using namespace op_cases_cross_entropy;
  cases.push_back(gradient_case({.name = "plain", .rows = 4, .vocab = 9}));
  cases.push_back(gradient_case({.name = "softcap", .rows = 4, .vocab = 9, .softcap = 2.0f}));
  cases.push_back(
      gradient_case({.name = "weights", .rows = 4, .vocab = 9, .softcap = 2.0f, .weights = true}));
  static constexpr int32_t kIds[] = {8, 0, 3, 5, 1, 8, 2, 2, 2, 7, 6, 1};  // the third row is masked
  static constexpr float kLogprobs[] = {-0.5f, -2, -1, -3, -0.1f, 0, 1, 1, 1, -1, -1, -1};
  kernels::Teacher teacher{kIds, kLogprobs, 3};
  cases.push_back(gradient_case({.name = "teacher", .rows = 4, .vocab = 9, .teacher = teacher}));
  teacher.temperature = 2.5f, teacher.weight = 0.375f;
  cases.push_back(gradient_case({.name = "teacher/mixed",
                                 .rows = 4,
                                 .vocab = 9,
                                 .softcap = 2.0f,
                                 .weights = true,
                                 .teacher = teacher}));
}

}  // namespace hawser::testing
