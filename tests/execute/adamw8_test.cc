// Tests AdamW with state in 8 bits in whole runs: it is the scalar reference, record by record of each
// group; its bits are the same in every layout of data-parallel ranks, through checkpoints and offload; and
// its state has exactly 2.125 bytes for each parameter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/cpu/optimizer_reference.h"
#include "tests/harness/data_parallel_ranks.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/refusal.h"
#include "tests/harness/small_config.h"
#include "tests/harness/small_language.h"

namespace hawser {
namespace adamw8_run_test {

using testing::data_parallel_ranks;
using testing::expect_error;
using testing::Layout;
using testing::LayoutRun;
using testing::Problem;
using testing::StepRecord;
using train::TensorKind;

Layout on_disk() {
  Layout layout = data_parallel_ranks(1, 4, 2);
  layout.offload =
      nlohmann::json{{"optimizer", "disk"}, {"folder", std::filesystem::temp_directory_path().string()}}
          .dump();
  return layout;
}

/// Rules give parameters of one group other rates and decays, so that settings change within records.
constexpr const char* kRules =
    R"([{"of": "*.attention.k.*", "rate": 0.5}, {"of": "*.attention_norm.*", "decay": 0.2},
        {"of": "blocks.1.mlp.down.*", "kind": "adamw"}])";

Problem problem_of(const std::string& precision, const std::string& rules = kRules) {
  Problem p;
  p.precision = precision, p.optimizer = "adamw8", p.rules = rules, p.weights_every = 0;
  return p;
}

std::vector<float> tensor(train::Trainer& trainer, TensorKind kind, const nn::Parameter& p) {
  std::vector<float> values(static_cast<size_t>(p.size));
  trainer.tensors().get(kind, p.name, values.data(), values.size() * sizeof(float));
  return values;
}

bool is_adamw8(const nn::ParameterTable& table, const nn::Parameter& p) {
  return optim::kind_of(table.group_of(p)) == optim::OptimizerKind::kAdamW8;
}

/// One group of a run on one rank, played by the scalar reference.
struct GroupReplay {
  std::vector<double> w, grad;
  std::vector<uint8_t> m, v;
  std::vector<kernels::SettingsRun> runs;

  explicit GroupReplay(int64_t n)
      : w(static_cast<size_t>(n)),
        grad(w.size()),
        m(static_cast<size_t>(n / kStateBlock * kStateRecord)),
        v(m.size()) {}
  void step(const kernels::OptimizerScalars& scalars) {
    kernels::AdamW8 a;
    a.runs = runs.data(), a.beta1 = 0.9f, a.beta2 = 0.95f, a.eps = 1e-8f;
    for (size_t i = 0; i < w.size(); i += kStateBlock)
      adamw8_reference(a, scalars, static_cast<int64_t>(i), w.data() + i,
                       m.data() + i / kStateBlock * kStateRecord, v.data() + i / kStateBlock * kStateRecord,
                       grad.data() + i);
  }
};

void set_settings(const nn::Parameter& p, GroupReplay* group) {
  const bool k = p.name.find(".attention.k.") != p.name.npos,
             norm = p.name.find(".attention_norm.") != p.name.npos;
  const float decay = norm ? 0.2f : p.decay ? 0.1f : 0.0f;
  if (!group->runs.empty()) group->runs.back().end = p.offset;
  group->runs.push_back({std::numeric_limits<int64_t>::max(), decay, k ? 0.5f : 1.0f});
}

TEST(AdamW8Run, IsTheScalarReferenceOnRecordsOfTheGroup) {
  for (const Layout& layout :
       {data_parallel_ranks(1, 1, 0), data_parallel_ranks(1, 4, 3), data_parallel_ranks(2, 2, 1)}) {
    SCOPED_TRACE(layout.name());
    LayoutRun run(problem_of("fp32"), layout);
    const nn::ParameterTable& table = run.trainer().ranks().table();
    std::map<int32_t, GroupReplay> groups;
    for (const nn::Parameter& p : table.all()) {
      if (!is_adamw8(table, p)) continue;
      GroupReplay& group = groups.try_emplace(p.group, table.group_of(p).elements).first->second;
      std::ranges::copy(tensor(run.trainer(), TensorKind::kWeight, p), group.w.begin() + p.offset);
      set_settings(p, &group);
    }
    for (int step = 0; step < 20; ++step) {
      const double rate = run.trainer().learning_rate();
      if (step < 2) {
        EXPECT_DOUBLE_EQ(rate, step == 0 ? 0.0015 : 0.003);
      }
      const StepRecord record = run.step();
      const double clip = std::min(1.0, 0.7 / (record.grad_norm + 1e-6));
      kernels::OptimizerScalars s;
      s.lr = static_cast<float>(rate), s.grad_scale = static_cast<float>(clip);
      s.bias_correction1 = static_cast<float>(1 - std::pow(0.9, step + 1));
      s.bias_correction2 = static_cast<float>(1 - std::pow(0.95, step + 1));
      for (const nn::Parameter& p : table.all())
        if (is_adamw8(table, p))
          std::ranges::copy(record.gradients.at(p.name), groups.at(p.group).grad.begin() + p.offset);
      for (auto& [number, group] : groups) group.step(s);
      int64_t other_codes = 0, all = 0;
      for (const nn::Parameter& p : table.all()) {
        if (!is_adamw8(table, p)) continue;
        const GroupReplay& group = groups.at(p.group);
        for (int64_t i = 0; i < p.size; ++i) {
          const int64_t at = p.offset + i, block = at / kStateBlock;
          const auto from = static_cast<size_t>(i);
          ASSERT_NEAR(static_cast<double>(record.weights.at(p.name)[from]), group.w[static_cast<size_t>(at)],
                      2e-4)
              << p.name << " " << i << " step " << step;
          for (const auto& [type, bytes, state] : {std::tuple{DType::kS8Block, &group.m, plan::kFirstMoment},
                                                   {DType::kU8Block, &group.v, plan::kSecondMoment}}) {
            const std::vector<double> x = kernels::state_numbers(type, bytes->data() + block * kStateRecord);
            const double want = x[static_cast<size_t>(at % kStateBlock)];
            const double got = static_cast<double>(record.states[state].at(p.name)[from]);
            other_codes += std::abs(got - want) > 1e-4 * std::abs(want) ? 1 : 0, ++all;
          }
        }
      }
      EXPECT_GT(all, 5000);
      EXPECT_LE(other_codes, all / 500) << "step " << step;  // f32 may round a number to the next code
    }
  }
}

TEST(AdamW8Run, HasTheSameBitsInEveryLayout) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    Problem p = problem_of(precision);
    p.layers = 4, p.average = 0.9;
    const auto alone = testing::run_layout(p, data_parallel_ranks(4, 1, 0), 3);
    const auto expect_same = [&](const Layout& layout) {
      EXPECT_EQ(testing::first_difference(alone, testing::run_layout(p, layout, 3)), "") << layout.name();
    };
    for (int64_t stage = 1; stage <= 3; ++stage) expect_same(data_parallel_ranks(1, 4, stage));
    expect_same(data_parallel_ranks(2, 2, 3));
    Layout stages = data_parallel_ranks(1, 4, 1);
    stages.pp = 2;
    expect_same(stages);
    expect_same(on_disk());
  }
}

TEST(AdamW8Run, StateHas2And1EighthBytesForEachParameter) {
  for (const Layout& layout :
       {data_parallel_ranks(1, 1, 0), data_parallel_ranks(1, 4, 1), data_parallel_ranks(1, 4, 3)}) {
    LayoutRun run(problem_of("bf16", ""), layout);
    for (int32_t r = 0; r < run.trainer().ranks().here(); ++r)
      for (size_t g = 0; g < run.trainer().ranks().table().groups().size(); ++g) {
        const parallel::GroupLayout& group =
            run.trainer().ranks().at(r).layout().group(static_cast<int32_t>(g));
        const int64_t n = group.state.size();
        EXPECT_EQ(n % 64, 0);
        int64_t bytes = 0;
        for (const parallel::GroupLayout::KeptState& kept : group.states) bytes += kept.bytes(n);
        EXPECT_EQ(bytes * 8, n * 17) << layout.name();
      }
  }
}

/// The losses were 2.15814 and 2.15803.
TEST(AdamW8Run, LearnsAsAdamWDoes) {
  Layout alone;
  alone.accumulation = 2;
  const double in_f32 = testing::learned_loss(alone, "adamw"),
               in_8_bits = testing::learned_loss(alone, "adamw8");
  EXPECT_LE(in_8_bits, 1.01 * in_f32);
  EXPECT_LT(in_f32, 2.5);
}

class AdamW8Checkpoints : public ::testing::Test {
 protected:
  void save(LayoutRun* run) {
    for (int step = 0; step < 2; ++step) run->step();
    run->trainer().saves().save(folder_.file("saved"));
  }
  testing::ScratchFolder folder_;
};

TEST_F(AdamW8Checkpoints, GoOnWithTheSameBitsInTheSameRecords) {
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const Problem p = problem_of(precision);
    LayoutRun run(p, data_parallel_ranks(4, 1, 0));
    for (int step = 0; step < 2; ++step) run.step();
    const std::string path = folder_.file(precision);
    run.trainer().saves().save(path);
    const StepRecord next = run.step();
    for (const Layout& layout : {data_parallel_ranks(4, 1, 0), data_parallel_ranks(1, 4, 3),
                                 data_parallel_ranks(2, 2, 1), on_disk()}) {
      LayoutRun resumed(p, layout);
      for (int step = 0; step < 6; ++step) resumed.step();  // moments larger than those that it loads
      resumed.trainer().loads().load(path, false);
      resumed.skip_to(2);
      EXPECT_EQ(testing::first_difference({next}, {resumed.step()}), "") << layout.name();
    }
  }
}

TEST_F(AdamW8Checkpoints, AsynchronousSavesHaveTheSameBits) {
  const Problem p = problem_of("bf16");
  LayoutRun run(p, data_parallel_ranks(1, 2, 1));
  for (int step = 0; step < 2; ++step) run.step();
  const auto save = run.trainer().saves().save_async(folder_.file("saved"));
  const StepRecord next = run.step();
  save->wait(-1);
  LayoutRun resumed(p, data_parallel_ranks(1, 2, 3));
  resumed.trainer().loads().load(folder_.file("saved"), false);
  resumed.skip_to(2);
  EXPECT_EQ(testing::first_difference({next}, {resumed.step()}), "");
}

/// Other ranks of tp put other elements into one record: numbers are encoded anew, to at most half a step of
/// the root's code.
TEST_F(AdamW8Checkpoints, AreEncodedAnewForAnotherDivisionOfTheModel) {
  const Problem p = problem_of("fp32");
  LayoutRun run(p, data_parallel_ranks(1, 2, 3));
  save(&run);
  Layout divided;
  divided.tp = 2, divided.accumulation = 4;
  LayoutRun loaded(p, divided);
  loaded.trainer().loads().load(folder_.file("saved"), false);
  for (const nn::Parameter& q : run.trainer().ranks().table().all())
    EXPECT_EQ(tensor(run.trainer(), TensorKind::kWeight, q),
              tensor(loaded.trainer(), TensorKind::kWeight, q));
  for (const TensorKind kind : {TensorKind::kMoment1, TensorKind::kMoment2}) {
    std::vector<double> before, after;
    for (const nn::Parameter& q : run.trainer().ranks().table().all()) {
      if (!is_adamw8(run.trainer().ranks().table(), q)) continue;
      for (const float x : tensor(run.trainer(), kind, q)) before.push_back(static_cast<double>(x));
      for (const float x : tensor(loaded.trainer(), kind, q)) after.push_back(static_cast<double>(x));
    }
    const bool first = kind == TensorKind::kMoment1;
    const auto root = [&](double x) {
      return first ? std::copysign(std::sqrt(std::abs(x)), x) : std::pow(x, 0.25);
    };
    double most = 0, difference = 0, squares = 0;
    for (const double x : before) most = std::max(most, std::abs(root(x)));
    for (size_t i = 0; i < before.size(); ++i) {
      const double x = before[i], y = after[i];
      difference += (x - y) * (x - y), squares += x * x;
      ASSERT_LE(std::abs(root(x) - root(y)), most * (first ? 0.51 / 127 : 1.0 / 255)) << i;
    }
    EXPECT_LE(std::sqrt(difference), 0.01 * std::sqrt(squares));
    EXPECT_GT(difference, 0) << "no record has other elements";
  }
  loaded.skip_to(2);
  EXPECT_NEAR(loaded.step().loss, run.step().loss, 1e-3);
}

/// Another optimizer may begin with the weights (/init/from), not with the state.
TEST_F(AdamW8Checkpoints, GiveOtherOptimizersTheirWeightsOnly) {
  Problem p = problem_of("fp32", "");
  LayoutRun run(p, {});
  save(&run);
  for (const char* kind : {"adamw", "muon", "lion", "sgd"}) {
    SCOPED_TRACE(kind);
    p.optimizer = kind, p.from = "";
    LayoutRun other(p, {});
    const std::vector<std::string> of_adamw = {"state of optimizer \"adamw8\"", "optimizer is \"adamw\""},
                                   of_others = {"this engine's optimizer does not keep"};
    const bool to_adamw = p.optimizer == "adamw";
    expect_error(Code::kCheckpointIncompatible, to_adamw ? of_adamw : of_others,
                 [&] { other.trainer().loads().load(folder_.file("saved"), false); });
    p.from = folder_.file("saved");
    LayoutRun begun(p, {});
    for (const nn::Parameter& q : run.trainer().ranks().table().all())
      EXPECT_EQ(tensor(run.trainer(), TensorKind::kWeight, q),
                tensor(begun.trainer(), TensorKind::kWeight, q));
    EXPECT_TRUE(std::isfinite(begun.step().loss));
  }
}

TEST(AdamW8Tensors, AreNumbersThatCanBeSetAndHaveNoView) {
  LayoutRun run(problem_of("fp32", ""), data_parallel_ranks(1, 2, 0));
  run.step();
  train::Trainer& trainer = run.trainer();
  for (const nn::Parameter& p : trainer.ranks().table().all())
    for (const TensorKind kind : {TensorKind::kMoment1, TensorKind::kMoment2}) {
      std::vector<float> values = tensor(trainer, kind, p);
      trainer.tensors().set(kind, p.name, values.data(), values.size() * sizeof(float));
      EXPECT_EQ(tensor(trainer, kind, p), values) << p.name;
    }
  const nn::Parameter& p = trainer.ranks().table().all().front();
  std::vector<float> values = tensor(trainer, TensorKind::kMoment2, p);
  values[3] = -1;
  expect_error(Code::kInvalidArgument, {"moment 2", p.name, "-1 at element 3", "at least 0"}, [&] {
    trainer.tensors().set(TensorKind::kMoment2, p.name, values.data(), values.size() * sizeof(float));
  });
  expect_error(Code::kUnimplemented, {"moment 1", "8 bits", "hws_tensor_get"},
               [&] { trainer.tensors().location(TensorKind::kMoment1, p.name); });
}

}  // namespace adamw8_run_test
}  // namespace hawser
