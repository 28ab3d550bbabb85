// Work tests: what a plan says that a step computes is what a profile of the step counts, by kernel, type and
// shape: calls, FLOPs and bytes.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/assembly/assemble.h"
#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/plan/step_work.h"
#include "engine/report/kernel_calls_report.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/random_config.h"
#include "tests/harness/teacher_rows.h"

namespace hawser::testing {
namespace work_test {

using Json = nlohmann::json;

struct Sums {
  int64_t calls = 0;
  double flops = 0, bytes = 0;
  bool operator==(const Sums&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Sums& s) {
  return out << s.calls << " calls, " << s.flops << " FLOP, " << s.bytes << " bytes";
}
using Work = std::map<std::string, Sums>;

/// Returns the sums by everything that tells classes apart.
void add(Work* work, const Json& row) {
  Json key = row;
  for (const char* sum : {"calls", "flops", "bytes", "seconds"}) key.erase(sum);
  Sums& sums = (*work)[key.dump()];
  sums.calls += row.at("calls").get<int64_t>();
  sums.flops += row.at("flops").get<double>(), sums.bytes += row.at("bytes").get<double>();
}

Work planned(const plan::Plan& plan) {
  Work work;
  for (const KernelCalls& calls : plan::step_work(plan))
    add(&work, Json::parse(train::kernel_calls_json(calls).dump()));
  return work;
}

/// Takes two steps with `step`, of which the second is profiled, and compares it with the plan, on the first
/// rank of every stage.
void expect_planned_work(train::Trainer& trainer, const std::function<void()>& step) {
  trainer.traces().set(true, true);
  step(), step();
  const Json report = Json::parse(trainer.traces().profile_report(true));
  std::set<const plan::Plan*> seen;
  for (const Json& rank : report.at("ranks")) {
    SCOPED_TRACE(rank.at("rank").get<int>());
    ASSERT_EQ(rank.at("steps"), 1);
    Work counted;
    for (const Json& row : rank.at("kernels")) add(&counted, row);
    const plan::Plan& plan = trainer.ranks().at(rank.at("rank")).plans().train;
    if (!seen.insert(&plan).second) continue;  // other ranks of a stage may have shorter parts than the first
    const Work work = planned(plan);
    EXPECT_GT(counted.size(), 4U);
    for (const auto& [key, sums] : work) EXPECT_EQ(sums, counted[key]) << key;
    for (const auto& [key, sums] : counted) EXPECT_TRUE(work.count(key)) << key << ' ' << sums;
  }
}

void expect_planned_work(const Problem& p, const Layout& l) {
  SCOPED_TRACE(l.name() + " " + p.precision + " " + p.optimizer);
  LayoutRun run(p, l);
  expect_planned_work(run.trainer(), [&] { run.step(); });
}

TEST(StepWork, OfOneRankIsWhatAProfileCounts) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const char* optimizer : {"adamw", "sgd"})
      for (const bool gpt2 : {true, false}) {
        Problem p;
        p.precision = precision, p.optimizer = optimizer, p.like_gpt2 = gpt2, p.tied = gpt2;
        Layout l;
        l.accumulation = 2;
        expect_planned_work(p, l);
      }
}

/// Pushes tokens until the config has taken two steps.
void expect_planned_work_of(const std::string& json) {
  const config::ConfigTree tree = config::ConfigTree::from_json(json);
  const config::ResolvedConfig config = train::assemble(tree).config;
  std::atomic<bool> cancel{false};
  const auto ranks = static_cast<int32_t>(config.mesh.world());
  const auto trainer =
      train::Trainer::create(tree, false, &cancel, ranks > 1 ? comm::make_local(ranks) : nullptr);
  const int64_t rows = config.batch.global_batch, columns = config.batch.sequence;
  std::vector<int32_t> tokens(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(philox(3, i, 0).v[0] % static_cast<uint32_t>(config.model.vocab_size));
  train::BatchView batch;
  batch.tokens = tokens.data(), batch.targets = tokens.data(), batch.rows = rows, batch.cols = columns;
  const TeacherRows teacher(config, 0, rows);
  teacher.add_to(&batch);
  expect_planned_work(*trainer, [&] {
    trainer->push(batch);
    trainer->forward_backward();
    trainer->commit();
  });
}

/// Where ranks divide experts, the rows that a rank computes depend on what routers choose, so the plan
/// counts as many as there is room for.
bool depends_on_data(const std::string& json) {
  return train::assemble(config::ConfigTree::from_json(json)).config.mesh.ep > 1;
}

/// Raises the limit of attention scores above all scores: plans do not count the work of scaling heads, which
/// depends on the data.
std::string without_clipped_heads(const std::string& config) {
  auto json = nlohmann::json::parse(config);
  if (json["optimizer"].contains("qk_clip")) json["optimizer"]["qk_clip"] = 1e30;
  return json.dump();
}

TEST(StepWork, OfRandomConfigsIsWhatAProfileCounts) {
  for (const uint64_t seed : random_seeds(60)) {
    SCOPED_TRACE(seed);
    const std::string json = without_clipped_heads(random_config(seed));
    SCOPED_TRACE(json);
    if (depends_on_data(json)) continue;
    try {
      expect_planned_work_of(json);
    } catch (const Error& error) {
      ADD_FAILURE() << error.message();
    }
  }
}

}  // namespace work_test
}  // namespace hawser::testing
