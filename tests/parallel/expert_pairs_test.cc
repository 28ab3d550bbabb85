// Expert overlap test: DualPipeV over ranks that divide experts. A forward and an input pass of a backward
// alternate, so that one computes while the other exchanges rows. The bits are those of one stage; plan,
// simulator and trace show how much of the exchanges is hidden.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "engine/base/philox.h"
#include "engine/comm/comm.h"
#include "engine/config/config_tree.h"
#include "engine/plan/simulator.h"
#include "tests/harness/expert_layouts.h"
#include "tests/harness/same_bits.h"

namespace hawser::testing {
namespace expert_pairs_test {

using Json = nlohmann::json;

/// Two dense layers at the bottom make the chunks of two stages differ; a balance bias, a shared expert,
/// documents.
Problem problem() {
  Problem p;
  p.layers = 6;
  p.experts = R"({"experts": 8, "top_k": 3, "width": 12, "score": "sigmoid", "layers": [1, 2, 3, 4, 5],
                  "shared_width": 20})";
  p.moe = R"({"aux_loss": 0.1, "balance_rate": 0.05})";
  p.documents = true;
  return p;
}

Layout staged(int64_t dp, int64_t tp = 1) {
  Layout layout = over(dp, 2);
  layout.tp = tp, layout.pp = 2, layout.schedule = "dualpipev", layout.accumulation = 6;
  return layout;
}

size_t pairs_in(const plan::Plan& plan) {
  return static_cast<size_t>(std::count_if(plan.instructions.begin(), plan.instructions.end(),
                                           [](const plan::Instruction& n) { return n.overlaps_next; }));
}

/// Each instruction of a pair keeps its operands until both have ended, and nothing is between them.
void expect_pairs(const plan::Plan& plan) {
  EXPECT_GT(pairs_in(plan), 4U);
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    if (!plan.instructions[i].overlaps_next) continue;
    const plan::Instruction &one = plan.instructions[i], &other = plan.instructions.at(i + 1);
    EXPECT_EQ(one.op, plan::Op::kBackwardInput);
    EXPECT_EQ(other.op, plan::Op::kForward);
    EXPECT_EQ(other.waits_for, plan::LaneMarks()) << "the first waits for both";
    for (const plan::Instruction* half : {&one, &other}) {
      std::vector<plan::SlotId> slots{half->scratch};
      for (const plan::Use& use : half->uses) slots.push_back(use.slot);
      for (const plan::SlotId id : slots) {
        const plan::Slot& slot = plan.slot(id);
        if (slot.persistent) continue;
        EXPECT_LE(slot.first, static_cast<int32_t>(i));
        EXPECT_GE(slot.last, static_cast<int32_t>(i) + 1) << slot.name;
      }
    }
  }
}

TEST(ExpertPairs, GiveTheBitsOfOneStage) {
  std::vector<Layout> layouts(5, staged(2));
  layouts[1].stage = 2, layouts[1].reduce = "per_micro_batch";
  layouts[2].stage = 3;
  layouts[3].recompute = R"({"policy": "full"})";
  layouts[4] = staged(1, 2);
  for (const Layout& layout : layouts) {
    Problem p = problem();
    if (&layout == &layouts[2]) p.precision = "bf16";
    Layout one = layout;
    one.pp = 1, one.schedule = "1f1b", one.rows_factor = 64;
    if (one.tp == 1) one.stage = 0;
    expect_same_bits(p, one, layout, 2);
    LayoutRun run(p, layout);
    for (const train::EnginePlans& plans : run.trainer().ranks().stages()) expect_pairs(plans.train);
  }
}

/// Neither offload nor the gathering of weights separates overlapped instructions.
TEST(ExpertPairs, StayTogetherBesideOffload) {
  Layout layout = staged(2);
  layout.stage = 3, layout.offload = Json({{"activations", "disk"}, {"folder", ::testing::TempDir()}}).dump();
  Layout kept = layout;
  kept.offload.clear();
  expect_same_bits(problem(), kept, layout, 2);
}

/// Returns a config whose exchanges of rows take about as long as the computation of other rows at 2e8 bytes
/// per second.
Json slow_config(double bytes_per_second) {
  return {{"seed", 3},
          {"device", "cpu"},
          {"model",
           {{"vocab_size", 256},
            {"context", 128},
            {"layers", 8},
            {"width", 128},
            {"heads", 4},
            {"norm", "rms_norm"},
            {"mlp", "swiglu"},
            {"tied_head", false},
            {"moe", {{"experts", 8}, {"top_k", 2}, {"width", 192}}}}},
          {"mesh", {{"dp_shard", 2}, {"ep", 2}, {"pp", 2}}},
          {"pipeline", {{"schedule", "dualpipev"}}},
          {"comm", {{"bandwidth_limit", bytes_per_second}}},
          {"batch", {{"micro_batch", 2}, {"grad_accum_steps", 8}, {"sequence", 128}}},
          {"cpu", {{"threads", 4}}}};
}

/// Runs traced steps of this config on all ranks.
class Traced {
 public:
  Traced(double bytes_per_second, int steps)
      : trainer_(train::Trainer::create(config::ConfigTree::from_json(slow_config(bytes_per_second).dump()),
                                        false, &cancel_, comm::make_local(4))) {
    trainer_->traces().set(true);
    for (int i = 0; i < steps; ++i) step();
  }

  const plan::Plan& plan(size_t rank) const { return trainer_->ranks().stages()[rank / 2].train; }
  plan::Timeline line(int rank) const { return trainer_->traces().timeline(rank); }
  const train::Traces& traces() const { return trainer_->traces(); }

 private:
  void step() {
    constexpr int64_t kRows = 32, kCols = 128;
    std::vector<int32_t> tokens(static_cast<size_t>(kRows * kCols));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(philox(9, i, steps_).v[0] % 256);
    ++steps_;
    trainer_->push({kRows, kCols, tokens.data(), tokens.data(), nullptr});
    trainer_->train_step();
  }

  std::atomic<bool> cancel_{false};
  std::unique_ptr<train::Trainer> trainer_;
  uint64_t steps_ = 0;
};

/// Returns the share of the exchanges of overlapped instructions that is hidden.
double hidden_share(const plan::Plan& plan, const plan::Timeline& line) {
  double beside = 0, awaited = 0;
  for (size_t i = 0; i < line.times.size(); ++i) {
    if (!plan.instructions[i].overlaps_next) continue;
    beside += line.times[i].beside, awaited += line.times[i].exchanging;
  }
  return beside / (beside + awaited);
}

/// Returns the costs of every rank: a FLOP takes a tenth of a nanosecond; an exchange takes latency and
/// bytes.
std::vector<std::vector<plan::CostTable>> costs_of(double exchange_bytes_per_second) {
  plan::CostTable costs;
  costs.seconds_per_flop = 1e-10;
  costs.bytes_per_second = 1e12;
  costs.exchange_bytes_per_second = exchange_bytes_per_second, costs.exchange_latency = 1e-6;
  return std::vector(2, std::vector(2, costs));
}

/// Rows are exchanged while the other task computes. Only the first exchange of each task, the counts, is
/// awaited at once.
TEST(ExpertPairs, HideWhatExpertsExchangeInTheSimulator) {
  const Traced run(0, 0);
  std::vector<plan::Plan> apart;
  std::vector<const plan::Plan*> pairs, separate;
  for (const size_t stage : {0, 1}) apart.push_back(run.plan(2 * stage));
  for (plan::Plan& plan : apart) {
    for (plan::Instruction& n : plan.instructions) n.overlaps_next = false;
    separate.push_back(&plan);
  }
  for (const size_t stage : {0, 1}) pairs.push_back(&run.plan(2 * stage));
  for (const double rate : {1e9, 2e8}) {
    const auto lines = plan::simulate(pairs, costs_of(rate));
    const auto others = plan::simulate(separate, costs_of(rate));
    for (const size_t stage : {0, 1}) {
      const plan::Overlap together = overlap_of(*pairs[stage], lines[stage][0]);
      const plan::Overlap one_by_one = overlap_of(*separate[stage], others[stage][0]);
      const double share = hidden_share(*pairs[stage], lines[stage][0]);
      std::printf("stage %zu at %.0f MB/s: %.3f hidden, makespan %.3f of that one by one\n", stage,
                  rate * 1e-6, share, together.makespan / one_by_one.makespan);
      EXPECT_GT(share, 0.95);
      EXPECT_NEAR(one_by_one.exchanging, together.exchanging + together.beside, 1e-9);
      EXPECT_EQ(one_by_one.beside, 0);
      EXPECT_LT(together.makespan, one_by_one.makespan);
    }
  }
}

/// Repeats the comparison on a transport that is slowed down.
TEST(ExpertPairs, HideWhatExpertsExchangeInATrace) {
  const Traced run(2e8, 2);
  double share = 0;
  for (int rank = 0; rank < 4; ++rank) {
    const double own = hidden_share(run.plan(static_cast<size_t>(rank)), run.line(rank));
    std::printf("rank %d: %.3f of the exchanges of pairs hidden\n", rank, own);
    share += own / 4;
  }
  EXPECT_GT(share, 0.05) << "on a machine with fewer cores than ranks; without pairs it is 0";
  const std::string text = run.traces().report(train::TraceForm::kJson);
  EXPECT_NE(text.find(" and FORWARD"), std::string::npos);
}

}  // namespace expert_pairs_test
}  // namespace hawser::testing
