// Expert parallelism test: ranks that divide experts have the bits of ranks that each have all experts
// (promise L2), for any number of rounds and any load, and the bits of plain data parallelism under every
// stage; tests also saves and exports.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/proof/prove_layout.h"
#include "tests/checkpoint/scratch.h"
#include "tests/harness/expert_layouts.h"
#include "tests/harness/layout_cells.h"
#include "tests/harness/near_one_rank.h"
#include "tests/harness/same_bits.h"
#include "tests/ranks/in_processes.h"

namespace hawser::testing {
namespace expert_parallel_test {

using Json = nlohmann::ordered_json;

/// The cases are softmax with both losses, two of six; sigmoids in groups with a balance bias and a shared
/// expert; every token to all experts (E = k); one of many experts, more than the rows of a rank.
std::vector<Problem> problems() {
  std::vector<Problem> all(4);
  all[0].like_gpt2 = false;
  all[0].experts = R"({"experts": 12, "top_k": 2, "width": 20})";
  all[0].moe = R"({"aux_loss": 0.3, "z_loss": 0.1})";
  all[1].experts = R"({"experts": 8, "top_k": 3, "width": 12, "score": "sigmoid", "scale": 1.5, "groups": 4,
                       "top_groups": 2, "shared_width": 20})";
  all[1].moe = R"({"aux_loss": 0.1, "balance_rate": 0.05})";
  all[1].documents = true;
  all[2].experts =
      R"({"experts": 4, "top_k": 4, "width": 16, "layers": [1], "shared_width": 16, "shared_gate": true})";
  all[2].tied = false;
  all[3].experts = R"({"experts": 60, "top_k": 1, "width": 8, "normalize": false})";
  return all;
}

bool is_expert(const std::string& name) { return name.find(".moe.experts.") != std::string::npos; }

void without_experts(std::map<std::string, std::vector<float>>* tensors) {
  std::erase_if(*tensors, [](const auto& tensor) { return is_expert(tensor.first); });
}

std::string without_rounds(const std::string& loads) {
  Json layers = Json::parse(loads);
  for (Json& layer : layers) layer.erase("rounds");
  return layers.dump();
}

/// Returns the first step's loss, loads and dense gradients, which do not depend on the order of sums over
/// rows of experts.
StepRecord dense_part(StepRecord record) {
  record.grad_norm = 0, record.norm_of_gradients = -1;
  record.loads = without_rounds(record.loads);
  without_experts(&record.gradients);
  record.weights.clear(), record.states = {};  // clipping uses the norm of all
  return record;
}

/// Returns `count` of the cells, from a position that changes daily.
template <class T>
std::vector<T> rotated(std::vector<T> all, size_t count) {
  const uint64_t seed = seed_of_today();
  std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seed % all.size()), all.end());
  if (all.size() > count) all.resize(count);
  fmt::print("seed {}\n", seed);
  return all;
}

TEST(ExpertParallel, EveryDegreeGivesTheBitsOfOneInOneRound) {
  for (const Problem& problem : problems())
    for (const int64_t ep : {2, 4}) {
      Layout one = over(4, 1), divided = over(4, ep, 64);
      one.sum_group = divided.sum_group = ep;
      if (ep == 4)
        one.accumulation = divided.accumulation = 2, one.reduce = divided.reduce = "per_micro_batch";
      expect_same_bits(problem, one, divided, 2);
    }
}

TEST(ExpertParallel, AnyNumberOfRoundsGivesTheSameLossRoutingAndDenseGradients) {
  for (const Problem& problem : problems()) {
    const StepRecord one = run_layout(problem, over(4, 1), 1).front();
    for (const auto& [ep, factor] : {std::pair<int64_t, double>{2, 0.3}, {4, 1}}) {
      StepRecord other = run_layout(problem, over(4, ep, factor), 1).front();
      EXPECT_EQ(first_difference({dense_part(one)}, {dense_part(other)}), "") << ep << " x " << factor;
      EXPECT_NEAR(other.grad_norm, one.grad_norm, 1e-6 * one.grad_norm);
    }
  }
}

/// Rows that are sent are rounded to bf16. So are rows that stay on their rank, and all rows of a single
/// rank.
TEST(ExpertParallel, NarrowActivationsGiveTheSameBitsForEveryDegree) {
  for (const char* precision : {"bf16", "bf16_pure", "fp8"})
    for (Problem problem : rotated(problems(), 2)) {
      problem.precision = precision;
      const StepRecord one = dense_part(run_layout(problem, over(4, 1), 1).front());
      const StepRecord two = dense_part(run_layout(problem, over(4, 2, 0.4), 1).front());
      const StepRecord four = dense_part(run_layout(problem, over(4, 4), 1).front());
      EXPECT_EQ(first_difference({one}, {two}), "") << precision;
      EXPECT_EQ(first_difference({one}, {four}), "") << precision;
    }
}

TEST(ExpertParallel, EveryStageGivesTheBitsOfDdp) {
  for (const Problem& base : rotated(problems(), 2))
    for (const char* precision : {"fp32", "bf16", "bf16_pure", "fp16", "fp8"})
      for (const int64_t stage : {1, 2, 3}) {
        Problem problem = base;
        problem.precision = precision;
        Layout ddp = over(4, 2), layout;
        ddp.accumulation = 2, ddp.reduce = stage == 2 ? "per_micro_batch" : "per_step";
        layout = ddp;
        layout.stage = stage, layout.bucket_bytes = stage == 1 ? 4096 : 0;
        expect_same_bits(problem, ddp, layout, 2);
      }
}

/// With as many ranks as mesh.ep, each rank is the only one with its experts.
TEST(ExpertParallel, EveryStageGivesTheBitsOfDdpWhereNoOtherRankHasTheSameExperts) {
  for (const char* reduce : {"per_step", "per_micro_batch"})
    for (const int64_t stage : {1, 2, 3}) {
      Layout ddp = over(4, 4);
      ddp.accumulation = 2, ddp.reduce = reduce;
      Layout layout = ddp;
      layout.stage = stage;
      expect_same_bits(problems()[0], ddp, layout, 2);
    }
}

TEST(ExpertParallel, HybridShardsGiveTheBitsOfDdp) {
  for (const int64_t stage : {1, 3}) {
    Layout ddp = over(4, 2), hybrid = over(2, 2);
    ddp.sum_group = 2;
    hybrid.dp_replicate = 2, hybrid.stage = stage;
    expect_same_bits(problems()[1], ddp, hybrid, 2);
  }
  Layout ddp = over(8, 2), hybrid = over(4, 2);  // two replicas of two shards of experts
  ddp.sum_group = 4;
  hybrid.dp_replicate = 2, hybrid.stage = 2;
  expect_same_bits(problems()[1], ddp, hybrid, 2);
}

TEST(ExpertParallel, CellsComputeWhatOneRankDoes) {
  struct Axes {
    int64_t ep, dp, tp, cp, pp, stage;
  };
  std::vector<Axes> fixed = {{2, 2, 1, 1, 1, 0}, {3, 3, 1, 1, 1, 0}, {2, 2, 2, 1, 1, 0}, {2, 1, 2, 2, 1, 0}};
  for (const Axes& more : rotated<Axes>({{4, 2, 2, 1, 1, 1},
                                         {2, 1, 2, 1, 1, 0},
                                         {2, 1, 4, 1, 1, 0},
                                         {2, 1, 1, 2, 1, 1},
                                         {2, 2, 1, 1, 2, 3},
                                         {2, 1, 2, 1, 2, 0},
                                         {6, 6, 1, 1, 1, 3}},
                                        3))
    fixed.push_back(more);
  for (const Axes& axes : fixed) {
    Problem problem = problems()[0];
    problem.optimizer = "sgd", problem.dropout = 0;
    Layout layout = over(axes.dp, axes.ep, 1);
    layout.tp = axes.tp, layout.cp = axes.cp, layout.pp = axes.pp, layout.stage = axes.stage;
    layout.accumulation = 2;
    expect_near_one_rank(problem, layout, 2, 3e-5);
  }
}

TEST(ExpertParallel, PipelinesGiveTheBitsOfOneStage) {
  for (const auto& [schedule, tp] : rotated<std::pair<std::string, int64_t>>(
           {{"1f1b", 1}, {"zbv", 1}, {"dualpipev", 1}, {"1f1b", 2}, {"zb_h1", 1}}, 3)) {
    Problem problem = problems()[1];
    problem.layers = 4;
    Layout one = over(tp == 1 ? 2 : 1, 2, 64);
    one.tp = tp, one.accumulation = 4;
    Layout two = one;
    two.pp = 2, two.schedule = schedule;
    expect_same_bits(problem, one, two, 2);
  }
}

/// Frozen experts reduce nothing, so their transfer could complete before the adapter's transfer that
/// precedes it.
TEST(ExpertParallel, WithFrozenExpertsGradientsAreAwaitedToo) {
  Problem adapted = problems()[0], frozen = problems()[0];
  adapted.adapter = R"({"rank": 2, "targets": ["attention.*"]})";
  frozen.frozen_also = {"*.moe.experts.*"};
  for (Problem problem : {adapted, frozen})
    for (const char* reduce : {"per_step", "per_micro_batch"}) {
      problem.layers = 4;
      Layout ddp = over(4, 2), hybrid = over(4, 2);
      ddp.accumulation = 2, ddp.reduce = reduce, ddp.sum_group = 2;
      hybrid = ddp, hybrid.dp_replicate = 2, hybrid.dp_shard = 2, hybrid.sum_group = 0, hybrid.stage = 2;
      expect_same_bits(problem, ddp, hybrid, 2);
      ddp.sum_group = 0;
      expect_stages_same_bits(problem, ddp, 2);
    }
}

/// A backward in two passes has room for every load and receives its rows in one round. A single stage takes
/// several rounds.
TEST(ExpertParallel, HalvesOfABackwardGiveTheBitsOfSeveralRounds) {
  const std::string schedule = rotated<std::string>({"zbv", "dualpipev", "zb_h1"}, 1).front();
  for (const auto& [ep, factor] : {std::pair<int64_t, double>{4, 0.8}, {4, 0.4}, {2, 0.3}}) {
    Problem problem = problems()[1];
    problem.layers = 4;
    Layout one = over(4, ep, factor);
    one.accumulation = 4;
    Layout two = one;
    two.pp = 2, two.schedule = schedule;
    LayoutRun run(problem, one);
    const Json loads = Json::parse(run.step().loads);
    double rounds = 0;
    for (const Json& layer : loads) rounds = std::max(rounds, layer.at("rounds").get<double>());
    EXPECT_GT(rounds, 1) << "nothing is tested with ep " << ep << " and factor " << factor;
    expect_same_bits(problem, one, two, 2);
  }
}

TEST(ExpertParallel, RecomputeChangesNoBit) {
  for (const double factor : {0.3, 64.0}) {
    Layout kept = over(2, 2, factor);
    kept.accumulation = 2;
    Layout again = kept;
    again.recompute = R"({"policy": "full"})";
    expect_same_bits(problems()[0], kept, again, 2);
    again.recompute = R"({"policy": "selective"})";
    expect_same_bits(problems()[0], kept, again, 2);
  }
}

/// tp ranks cannot divide the rows of the micro-batch evenly: the last rank has fewer, or none.
TEST(ExpertParallel, SourcesWithFewerRowsOrNone) {
  Problem problem = problems()[0];
  problem.optimizer = "sgd", problem.dropout = 0, problem.heads = problem.kv_heads = 12;
  problem.mlp_width = 36;
  problem.micro_batch = 1, problem.sequence = 5, problem.seed = 3;
  for (const auto& [tp, ep] : {std::pair<int64_t, int64_t>{3, 3}, {4, 2}, {4, 4}}) {
    Layout layout = over(1, ep, 0.7);
    layout.tp = tp;
    expect_near_one_rank(problem, layout, 2, 3e-5);
  }
}

TEST(ExpertParallel, GoesOnFromACheckpointOfAnotherMesh) {
  for (const char* precision : {"fp32", "bf16_pure"}) {
    Problem problem = problems()[1];
    problem.precision = precision;
    Layout alone = over(4, 1), divided = over(4, 2, 64);
    alone.sum_group = divided.sum_group = 2;
    divided.stage = 3;
    // If ranks have all experts, each rounds its own gradients of them.
    if (problem.precision == "bf16_pure") alone = divided, alone.stage = 1;
    for (const bool back : {false, true}) {
      const checkpoint::Scratch scratch;
      LayoutRun first(problem, back ? alone : divided), second(problem, back ? divided : alone);
      first.step();
      first.trainer().saves().save(scratch / "saved");
      second.trainer().loads().load(scratch / "saved", false);
      second.skip_to(1);
      EXPECT_EQ(first_difference({first.step()}, {second.step()}), "") << precision << back;
    }
  }
}

/// Evaluates fewer rows than ranks, and computes logits; all ranks take part.
TEST(ExpertParallel, EvaluatesAsOneRankDoes) {
  const Problem problem = problems()[0];
  LayoutRun one(problem, Layout()), four(problem, over(4, 4, 0.5));
  const Rows rows = rows_of(problem, 3, 0);
  const train::BatchView view = rows.view();
  EXPECT_EQ(one.trainer().inference().eval(&view, 0).loss, four.trainer().inference().eval(&view, 0).loss);
  std::vector<float> a(3 * 12 * 53), b(a.size());
  one.trainer().inference().forward(view, a.data(), a.size() * sizeof(float));
  four.trainer().inference().forward(view, b.data(), b.size() * sizeof(float));
  EXPECT_EQ(a, b);
}

std::map<std::string, std::string> files_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

/// Experts are exported to and imported from a Hugging Face folder one by one, under their global numbers.
TEST(ExpertParallel, ExportsAndImportsTheFoldersOfOneRank) {
  const checkpoint::Scratch scratch;
  const auto exported = [&](const char* to, const Json& mesh, const char* from) {
    Json config = {{"seed", *from == 0 ? 7 : 8},
                   {"device", "cpu"},
                   {"model",
                    {{"vocab_size", 53},
                     {"context", 24},
                     {"layers", 2},
                     {"width", 24},
                     {"heads", 4},
                     {"norm", "rms_norm"},
                     {"mlp", "swiglu"},
                     {"position", "rotary"},
                     {"tied_head", false},
                     {"moe", {{"experts", 4}, {"top_k", 2}, {"width", 20}}}}},
                   {"batch", {{"micro_batch", 2}, {"sequence", 12}}},
                   {"mesh", mesh}};
    if (*from != 0) config.erase("model"), config["init"] = {{"from", (scratch / from)}};
    std::atomic<bool> cancel{false};
    const int64_t world = mesh.value("dp_shard", 1);
    train::Trainer::create(config::ConfigTree::from_json(config.dump()), false, &cancel,
                           world > 1 ? comm::make_local(static_cast<int32_t>(world)) : nullptr)
        ->exports()
        .model_to(scratch / to, "f32");
    return files_in(scratch / to);
  };
  const Json four = {{"dp_shard", 4}, {"ep", 2}};
  const auto one = exported("one", Json::object(), "");
  EXPECT_EQ(exported("four", four, ""), one);
  EXPECT_EQ(exported("again", four, "one"), one);
}

TEST(ExpertParallel, IsProved) {
  for (const auto& [dp, tp, ep, stage] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t>{4, 1, 2, 3}, {2, 2, 2, 0}, {3, 1, 3, 2}}) {
    Layout layout = over(dp, ep, 0.5);
    layout.tp = tp, layout.stage = stage, layout.accumulation = 2;
    const Json proof = Json::parse(
        train::prove_layout(config::ConfigTree::from_json(layout_config(problems()[0], layout)), 2));
    EXPECT_TRUE(proof.at("equal").get<bool>()) << layout.name() << ": " << proof.dump(2);
  }
}

TEST(ExpertParallel, ProcessesGiveTheBitsOfThreads) {
  Layout layout = over(4, 2, 0.5);
  layout.stage = 2;
  const std::string expected = summary_of(run_layout(problems()[0], layout, 2));
  const auto texts = in_processes(4, [&](std::shared_ptr<comm::Comm> comm) {
    return summary_of(run_layout(problems()[0], layout, 2, std::move(comm)));
  });
  for (const std::string& text : texts) EXPECT_EQ(text, expected);
}

}  // namespace expert_parallel_test
}  // namespace hawser::testing
