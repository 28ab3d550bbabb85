// Runs the op-case table: compares every row's fast path with the scalar reference on each CPU level of this
// machine; expects the same bits for every number of workers and order of tasks; compares every gradient with
// complex step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "kernels/include/levels.h"
#include "tests/harness/run_op_case.h"
#include "tests/harness/test_stream.h"

namespace hawser::testing {
namespace op_cases_test {

using OpAndLevel = std::tuple<std::string, int32_t>;

/// Returns the results of run_reference. The levels of an op are tested one after the other, so each case of
/// the op runs once for all of them.
const RealOperands& reference_of(const OpCase& c) {
  static std::string op;
  static std::map<const OpCase*, RealOperands> results;
  if (op != c.op) results.clear(), op = c.op;
  const auto [result, is_new] = results.try_emplace(&c);
  if (is_new) result->second = run_reference(c);
  return result->second;
}

/// Returns the rows of an op. HAWSER_CASES_PER_OP in the environment is the most to take, evenly spaced,
/// because an emulated processor takes too long for all of them.
std::vector<const OpCase*> rows_of(const std::string& op) {
  const std::vector<const OpCase*> all = cases_of(op);
  const char* const text = std::getenv("HAWSER_CASES_PER_OP");
  const size_t most = text == nullptr ? all.size() : static_cast<size_t>(std::atoll(text));
  if (most == 0 || all.size() <= most) return all;
  std::vector<const OpCase*> some;
  for (size_t i = 0; i < most; ++i) some.push_back(all[i * all.size() / most]);
  return some;
}

class OpCases : public ::testing::TestWithParam<OpAndLevel> {
 protected:
  void SetUp() override {
    const auto level = static_cast<kernels::CpuLevel>(std::get<1>(GetParam()));
    const std::string name = kernels::cpu_level_name(level);
    if (!kernels::has_cpu_level(level)) GTEST_SKIP() << "this machine has no " << name;
    table_ = &kernels::cpu_kernels(level);
    if (name != table_->name) GTEST_SKIP() << "this build has no " << name;
  }
  const kernels::KernelTable* table_ = nullptr;
};

TEST_P(OpCases, AgreeWithTheReference) {
  for (const OpCase* row : rows_of(std::get<0>(GetParam()))) {
    const OpCase& c = *row;
    SCOPED_TRACE(c.op + "/" + c.name);
    SerialStream stream;
    expect_close(c, run_fast(c, *table_, stream), reference_of(c));
  }
}

TEST_P(OpCases, GiveTheSameBitsForEveryNumberOfWorkers) {
  for (const OpCase* row : rows_of(std::get<0>(GetParam()))) {
    const OpCase& c = *row;
    SCOPED_TRACE(c.op + "/" + c.name);
    SerialStream one(1), shuffled(3, TaskOrder::kShuffled), descending(2, TaskOrder::kDescending);
    ThreadStream two(2), three(3);
    const auto want = run_fast(c, *table_, one);
    for (Stream* stream : {static_cast<Stream*>(&shuffled), static_cast<Stream*>(&descending),
                           static_cast<Stream*>(&two), static_cast<Stream*>(&three)}) {
      EXPECT_TRUE(run_fast(c, *table_, *stream) == want) << stream->num_workers << " workers";
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<OpAndLevel>& info) {
  std::string level = kernels::cpu_level_name(static_cast<kernels::CpuLevel>(std::get<1>(info.param)));
  std::replace_if(
      level.begin(), level.end(), [](char ch) { return ch == '-' || ch == '+' || ch == '.'; }, '_');
  return std::get<0>(info.param) + "_" + level;
}

INSTANTIATE_TEST_SUITE_P(Table, OpCases,
                         ::testing::Combine(::testing::ValuesIn(all_ops()),
                                            ::testing::Range(0, kernels::kCpuLevels)),
                         test_name);

class GradientCases : public ::testing::TestWithParam<std::string> {};

TEST_P(GradientCases, AgreeWithComplexStep) {
  for (const GradientCase& c : gradient_cases()) {
    if (c.op != GetParam()) continue;
    SCOPED_TRACE(c.op + "/" + c.name);
    ComplexOperands in;
    for (const auto& operand : c.inputs) in.emplace_back(operand.begin(), operand.end());
    RealOperands dout;
    for (const auto& out : c.forward(in)) {
      dout.push_back(
          random_values(static_cast<int64_t>(out.size()), 99 + static_cast<uint32_t>(dout.size())));
    }
    const RealOperands got = c.backward(c.inputs, dout);
    const RealOperands want = complex_step_gradient(c.forward, c.inputs, dout);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_LE(relative_error(got[i], want[i]), 1e-8) << "input " << i;
  }
}

std::vector<std::string> differentiated_ops() {
  std::set<std::string> ops;
  for (const GradientCase& c : gradient_cases()) ops.insert(c.op);
  return {ops.begin(), ops.end()};
}

INSTANTIATE_TEST_SUITE_P(Table, GradientCases, ::testing::ValuesIn(differentiated_ops()),
                         [](const auto& info) { return info.param; });

TEST(OpCaseTable, HasARowForEveryOp) {
  std::set<std::string> with_rows;
  for (const OpCase& c : op_cases()) with_rows.insert(c.op);
  for (const std::string& op : all_ops()) EXPECT_TRUE(with_rows.count(op)) << op << " has no row";
  EXPECT_EQ(with_rows.size(), all_ops().size());
}

TEST(OpCaseTable, HasAGradientRowForEveryBackward) {
  const std::vector<std::string> ops = differentiated_ops();
  for (const std::string& op : all_ops()) {
    if (op.find("backward") == std::string::npos) continue;
    EXPECT_TRUE(std::count(ops.begin(), ops.end(), op)) << op << " has no gradient row";
  }
}

}  // namespace op_cases_test
}  // namespace hawser::testing
