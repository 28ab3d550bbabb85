// Plan digest tests: ranks compare their plans once, before anything else depends on them. If plans
// differ, the error on all ranks names the first rank that differs from rank 0, and what differs.
#include "engine/assembly/plan_digest.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "engine/assembly/assemble.h"
#include "engine/execute/agreed_error.h"
#include "engine/ranks/agreement.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace plan_digest_test {

using train::PlanDigest, train::PlanPart;

/// Returns the digest of one of 4 ranks, with `set` laid over the config. `workers`: the threads of its
/// machine.
PlanDigest digest(const char* set = "{}", int32_t workers = 1,
                  const std::function<void(train::EnginePlans*)>& change = nullptr) {
  Layout layout;
  layout.dp_shard = 4, layout.stage = 3, layout.accumulation = 2;
  nlohmann::json json = nlohmann::json::parse(layout_config({}, layout));
  json.merge_patch(nlohmann::json::parse(set));
  const train::Assembly a = train::assemble(config::ConfigTree::from_json(json.dump()));
  const nn::Model model(a.config.model, a.config.init.scale_residual,
                        optim::trained_parts(a.config.optimizer));
  train::EnginePlans plans =
      train::make_plans(model, a.config, {&train::choose_kernels(a.config), workers, true}, false);
  if (change) change(&plans);
  return train::digest_of({plans}, model, a.config, false);
}

/// Returns the parts that differ from those of the usual config.
std::vector<PlanPart> differing(const PlanDigest& other) {
  const PlanDigest usual = digest();
  std::vector<PlanPart> parts;
  for (size_t p = 0; p < usual.parts.size(); ++p)
    if (usual.parts[p] != other.parts[p]) parts.push_back(static_cast<PlanPart>(p));
  return parts;
}

using Parts = std::vector<PlanPart>;
constexpr PlanPart kAll[] = {PlanPart::kTrain,    PlanPart::kEval,       PlanPart::kLogits,
                             PlanPart::kGenerate, PlanPart::kParameters, PlanPart::kGroups};

TEST(PlanDigest, KnowsWhichPartDiffers) {
  EXPECT_EQ(differing(digest()), Parts());
  EXPECT_EQ(differing(digest(R"({"batch": {"grad_accum_steps": 3}})")), Parts{PlanPart::kTrain});
  EXPECT_EQ(differing(digest(R"({"optimizer": {"frozen": ["blocks.0.*"]}})")),
            (Parts{PlanPart::kTrain, PlanPart::kParameters}));
  EXPECT_EQ(differing(digest(R"({"model": {"width": 32}})")), Parts(std::begin(kAll), std::end(kAll) - 1));
  EXPECT_EQ(differing(digest(R"({"comm": {"sum_group": 2}})")), Parts{PlanPart::kGroups});
  EXPECT_EQ(differing(digest("{}", 1, [](train::EnginePlans* plans) { plans->peers = true; })),
            Parts{PlanPart::kGroups});
}

TEST(PlanDigest, SeesOneOperandOneSizeAndOneLane) {
  const auto with = [](const auto& change) {
    return differing(digest("{}", 1, [&](train::EnginePlans* plans) { change(&plans->train); }));
  };
  const auto transfer = [](plan::Plan* plan) -> plan::Instruction& {
    for (plan::Instruction& n : plan->instructions)
      if (n.is_transfer()) return n;
    return plan->instructions.front();
  };
  const Parts train = {PlanPart::kTrain};
  EXPECT_EQ(with([&](plan::Plan* p) { transfer(p).lane = plan::Lane::kBlock; }), train);
  EXPECT_EQ(with([&](plan::Plan* p) { transfer(p).sent_bytes += 1; }), train);
  EXPECT_EQ(with([&](plan::Plan* p) { p->slots[transfer(p).uses.front().slot].bytes += 64; }), train);
  EXPECT_EQ(with([&](plan::Plan* p) { transfer(p).uses.pop_back(); }), train);
  EXPECT_EQ(with([&](plan::Plan* p) { std::swap(p->instructions[0], transfer(p)); }), train);
  EXPECT_EQ(with([&](plan::Plan* p) { p->commit += 1; }), train);
}

/// Workspaces grow with the number of threads, and the slots after them move.
TEST(PlanDigest, SaysNothingOfWhatMayDifferByMachine) {
  EXPECT_EQ(differing(digest("{}", 7)), Parts());
  const auto elsewhere = [](train::EnginePlans* plans) {
    for (plan::Slot& slot : plans->train.slots) {
      slot.offset += 4096;
      if (slot.category == plan::Category::kWorkspace) slot.bytes *= 2;
    }
    for (plan::Instruction& n : plans->train.instructions) n.waits_for = plan::LaneMarks(-1);
  };
  EXPECT_EQ(differing(digest("{}", 1, elsewhere)), Parts());
}

/// Returns the error of every rank; "" if it has none. Each rank makes one call.
std::vector<std::string> agree(const std::vector<PlanDigest>& digests) {
  std::vector<std::string> answers(digests.size());
  spawn_ranks(static_cast<int32_t>(digests.size()), [&](comm::RankComm& rank) {
    const auto r = static_cast<size_t>(rank.rank());
    try {
      train::agree_on_plans(&rank, digests[r]);
    } catch (const train::AgreedError& e) {
      EXPECT_EQ(e.code(), Code::kFailedPrecondition);
      answers[r] = e.message();
    }
    std::vector<comm::Record> calls(10);
    EXPECT_EQ(rank.recall(calls.data(), 10), 1);
    EXPECT_EQ(calls[0].operation, comm::Operation::kAllGather);
  });
  return answers;
}

TEST(PlanDigest, IsAgreedInOneCallThatNamesTheFirstRankAndWhatDiffers) {
  const PlanDigest usual = digest(), other = digest(R"({"batch": {"grad_accum_steps": 3}})"),
                   cut = digest(R"({"optimizer": {"frozen": ["blocks.0.*"]}})");
  EXPECT_EQ(agree({usual, usual, usual}), std::vector<std::string>(3));
  const std::string run = "; run the same build of Hawser on all ranks";
  EXPECT_EQ(agree({usual, usual, other, cut}),
            std::vector<std::string>(4, "rank 2 has another plan of training steps than rank 0" + run));
  PlanDigest layout = usual;
  layout[PlanPart::kParameters] = cut[PlanPart::kParameters];
  EXPECT_EQ(agree({usual, layout}),
            std::vector<std::string>(2, "rank 1 has another layout of parameters than rank 0" + run));
  PlanDigest groups = usual;
  groups[PlanPart::kGroups] = digest(R"({"comm": {"sum_group": 2}})")[PlanPart::kGroups];
  EXPECT_EQ(agree({usual, usual, groups}),
            std::vector<std::string>(3, "rank 2 has another grouping of ranks than rank 0" + run));
}

TEST(PlanDigest, IsAgreedWhenAnEngineIsMade) {
  Layout layout;
  layout.dp_shard = 3;
  LayoutRun run({}, layout);
  const auto flight = nlohmann::json::parse(run.trainer().reports().flight(true));
  for (const nlohmann::json& rank : flight.at("ranks")) {
    int64_t group = -1, calls = 0;
    for (size_t g = 0; g < rank.at("groups").size(); ++g)
      if (rank.at("groups")[g].at("name") == "plans") group = static_cast<int64_t>(g);
    for (const nlohmann::json& call : rank.at("calls")) calls += call.at("group") == group ? 1 : 0;
    EXPECT_EQ(calls, 1) << rank;
  }
}

}  // namespace plan_digest_test
}  // namespace hawser::testing
