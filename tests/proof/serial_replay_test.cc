// Serial replay tests: compare real ranks bit for bit with a replay of all ranks on one rank, for every
// stage, reduce policy, order of sums and gradient type. They use the proof that users run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/config/config_tree.h"
#include "engine/proof/prove_layout.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace serial_replay_test {

using Json = nlohmann::json;

void expect_proof(const Problem& problem, const Layout& layout) {
  const Json proof =
      Json::parse(train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 3));
  EXPECT_TRUE(proof.at("equal").get<bool>()) << layout.name() << ": " << proof.at("first_difference");
  // Promise L4: the sums in the order of the ranks are as close to f64 as sums in other orders.
  const Json& distance = proof.at("distance_to_f64");
  const double other =
      std::max(distance.at("ascending").get<double>(), distance.at("descending").get<double>());
  if (layout.gradient_type != "fp32" || layout.quantized_gradients != "off") return;
  EXPECT_LE(distance.at("ranks").get<double>(), 2 * other) << layout.name();
}

TEST(SerialReplay, GiveTheBitsOfRealRanks) {
  for (const char* precision : {"fp32", "bf16"})
    for (const int64_t dp : {2, 3, 4, 6})
      for (const char* reduce : {"per_step", "per_micro_batch"})
        for (const int64_t stage : {0, 1, 2, 3}) {
          Problem problem;
          problem.precision = precision, problem.tied = dp != 3, problem.frozen = dp == 4;
          if (stage == 1) problem.optimizer = "sgd";
          Layout layout;
          layout.dp_shard = dp, layout.accumulation = 2, layout.reduce = reduce, layout.stage = stage;
          expect_proof(problem, layout);
        }
}

TEST(SerialReplay, OfHybridShardsNarrowGradientsAndTrees) {
  Layout hybrid;
  hybrid.dp_replicate = 2, hybrid.dp_shard = 3, hybrid.stage = 2, hybrid.accumulation = 2;
  expect_proof(Problem(), hybrid);
  hybrid.gradient_type = "bf16", hybrid.reduce = "per_micro_batch";
  expect_proof(Problem(), hybrid);
  Layout sum_group;
  sum_group.dp_shard = 4, sum_group.stage = 1, sum_group.sum_group = 2;
  expect_proof(Problem(), sum_group);
  Layout tree;
  tree.dp_shard = 4, tree.stage = 3, tree.accumulation = 2, tree.tree = true;
  expect_proof(Problem(), tree);
  // This is plain data parallelism on a mesh of two axes. Its tree does not depend on sum_group.
  tree.dp_replicate = 2, tree.dp_shard = 2, tree.stage = 0;
  expect_proof(Problem(), tree);
}

/// N ranks in groups of S (0: all). The replay encodes and decodes whole parameter groups, so records that a
/// shard, a bucket or a chunk cut, or that a hop left out, would show.
TEST(SerialReplay, OfGradientsInRecords) {
  const std::pair<int64_t, int64_t> kRanks[] = {{2, 0}, {3, 1}, {4, 2}, {5, 0},
                                                {6, 1}, {6, 2}, {6, 3}, {8, 4}};
  int64_t number = 0;
  for (const auto& [ranks, group] : kRanks)
    for (const char* type : {"int8", "int4"})
      for (const char* reduce : {"per_step", "per_micro_batch"}) {
        Problem problem;
        problem.precision = number % 3 == 1 ? "bf16" : "fp32", problem.tied = number % 2 == 0;
        problem.frozen = number % 5 == 4, problem.like_gpt2 = number % 4 != 3;
        Layout layout;
        layout.dp_shard = ranks, layout.sum_group = group, layout.quantized_gradients = type;
        layout.accumulation = 1 + number % 2, layout.reduce = reduce, layout.stage = number % 4;
        if (number % 3 == 2) layout.gradient_type = "bf16";
        expect_proof(problem, layout), ++number;
      }
  Layout hybrid;
  hybrid.dp_replicate = 2, hybrid.dp_shard = 3, hybrid.stage = 2, hybrid.accumulation = 2;
  for (const char* type : {"int8", "int4"})
    for (const char* reduce : {"per_step", "per_micro_batch"}) {
      hybrid.quantized_gradients = type, hybrid.reduce = reduce;
      expect_proof(Problem(), hybrid);
    }
}

/// Expects that both margins hold, and that they come from distances above zero.
void expect_near(const Json& proof) {
  for (const char* margin : {"distance_to_one_rank", "distance_to_f64_model"}) {
    EXPECT_GT(proof.at(margin).at("distance").get<double>(), 0) << margin;
    EXPECT_LE(proof.at(margin).at("share_of_allowed").get<double>(), 1) << proof.at(margin);
  }
}

/// One rank adds in another order than tensor-parallel ranks, so the bits differ, but the distance is no
/// greater than that of a twin.
TEST(SerialReplay, OfTensorParallelRanksAreNearOneRank) {
  for (const char* precision : {"fp32", "bf16"})
    for (const bool like_gpt2 : {true, false})
      for (const int64_t tp : {2, 4, 8}) {
        Problem problem;
        problem.precision = precision, problem.like_gpt2 = like_gpt2;
        problem.heads = 8, problem.kv_heads = 2;
        Layout layout;
        layout.tp = tp, layout.dp_shard = 2, layout.stage = 2, layout.sequence_parallel = tp != 4;
        const Json proof = Json::parse(
            train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 2));
        EXPECT_TRUE(proof.at("equal").get<bool>()) << layout.name() << ": " << proof;
        expect_near(proof);
      }
}

TEST(SerialReplay, OfContextParallelRanksAreNearOneRank) {
  for (const char* precision : {"fp32", "bf16"})
    for (const bool like_gpt2 : {true, false})
      for (const char* mode : {"ring", "ulysses", "gather"}) {
        Problem problem;
        problem.precision = precision, problem.like_gpt2 = like_gpt2;
        Layout layout;
        layout.cp = 2, layout.cp_mode = mode, layout.dp_shard = 2, layout.stage = 2;
        layout.tp = like_gpt2 ? 1 : 2;
        const Json proof = Json::parse(
            train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 2));
        EXPECT_TRUE(proof.at("equal").get<bool>()) << layout.name() << ": " << proof;
        expect_near(proof);
      }
}

/// All rows of a rank may be masked, because only the global batch must have targets.
TEST(SerialReplay, OfWhomSomeHaveNothingToLearn) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Problem problem;
    problem.seed = seed, problem.micro_batch = 1;
    Layout layout;
    layout.dp_shard = 4;
    expect_proof(problem, layout);
  }
}

TEST(SerialReplay, NameThePlainRanksThatHaveTheirBits) {
  const auto same_bits = [](const Layout& layout) {
    return Json::parse(
               train::prove_layout(config::ConfigTree::from_json(layout_config(Problem(), layout)), 1))
        .at("same_bits");
  };
  Layout hybrid;
  hybrid.dp_replicate = 16, hybrid.dp_shard = 8, hybrid.stage = 3;  // the proof runs on fewer ranks
  EXPECT_EQ(same_bits(hybrid), Json::parse(R"({"/mesh/dp_replicate": 1, "/mesh/dp_shard": 128,
                                               "/zero/stage": 0, "/comm/sum_group": 8})"));
  Layout groups;
  groups.dp_shard = 4, groups.stage = 2, groups.sum_group = 2;
  EXPECT_EQ(same_bits(groups).at("/comm/sum_group"), 2);
  Layout tree;
  tree.dp_replicate = 2, tree.dp_shard = 2, tree.stage = 1, tree.tree = true;
  EXPECT_FALSE(same_bits(tree).contains("/comm/sum_group"));
}

}  // namespace serial_replay_test
}  // namespace hawser::testing
