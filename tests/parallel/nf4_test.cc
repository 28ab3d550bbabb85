// NF4 test: an NF4 base has the bits of a plain base with the same numbers, and keeps them under every
// layout.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"
#include "engine/proof/prove_layout.h"
#include "tests/harness/near_one_rank.h"
#include "tests/harness/same_bits.h"

namespace hawser::testing {
namespace nf4_test {

using Json = nlohmann::json;
using train::TensorKind;

/// The cases are matrices whose last block is not full, biases, magnitudes, and a shared A; trained linears
/// among others, with documents; latent attention; and a shared expert next to experts in the stored type.
std::vector<Problem> problems() {
  std::vector<Problem> all(4);
  all[0].adapter = R"({"rank": 3, "dropout": 0.3, "base": "nf4", "dora": true})";
  all[1].adapter =
      R"({"rank": 4, "base": "nf4", "train": ["*_norm.weight", "head.weight", "blocks.1.mlp.down.*"]})";
  all[1].like_gpt2 = false, all[1].tied = false, all[1].documents = true;
  all[2].adapter = R"({"rank": 2, "base": "nf4", "targets": ["attention.*"]})";
  all[2].like_gpt2 = false;
  all[2].latent = R"({"kv_rank": 12, "q_rank": 14, "rope_dim": 4, "value_dim": 7})";
  all[3].adapter = R"({"rank": 2, "base": "nf4", "targets": ["moe.shared.*", "attention.v"]})";
  all[3].like_gpt2 = false;
  all[3].experts = R"({"experts": 6, "top_k": 2, "width": 20, "shared_width": 16})";
  return all;
}

/// Returns the problem with a plain base.
Problem plain(Problem problem) {
  Json adapter = Json::parse(problem.adapter);
  adapter.erase("base");
  problem.adapter = adapter.dump();
  return problem;
}

std::vector<float> weight(const train::Trainer& trainer, const Json& p) {
  std::vector<float> values(p.at("count").get<size_t>());
  trainer.tensors().get(TensorKind::kWeight, p.at("name").get<std::string>(), values.data(),
                        values.size() * 4);
  return values;
}

std::vector<float> logits(train::Trainer& trainer, const Problem& problem) {
  const Rows rows = rows_of(problem, problem.micro_batch, 0);
  std::vector<float> logits(rows.tokens.size() * 53);
  trainer.inference().forward(rows.view(), logits.data(), logits.size() * sizeof(float));
  return logits;
}

/// Gives a plain base the numbers of an NF4 base, and trains both.
void expect_bits_of_plain_base(const Problem& problem, const Layout& layout) {
  LayoutRun nf4(problem, layout), other(plain(problem), layout);
  int64_t changed = 0;
  for (const Json& p : Json::parse(nf4.trainer().tensors().json())) {
    const std::vector<float> theirs = weight(nf4.trainer(), p);
    if (theirs == weight(other.trainer(), p)) continue;
    ++changed;
    other.trainer().tensors().set(TensorKind::kWeight, p.at("name").get<std::string>(), theirs.data(),
                                  theirs.size() * sizeof(float));
  }
  EXPECT_GE(changed, 8) << problem.adapter;
  EXPECT_EQ(logits(nf4.trainer(), problem), logits(other.trainer(), problem));
  for (int step = 0; step < 4; ++step)
    EXPECT_EQ(first_difference({nf4.step()}, {other.step()}), "")
        << problem.adapter << problem.precision << step;
  EXPECT_EQ(logits(nf4.trainer(), problem), logits(other.trainer(), problem));
}

/// All sizes are multiples of 64, so that q, k and v are one product with either base.
TEST(Nf4Base, TrainsTheBitsOfAPlainBaseOfItsNumbers) {
  for (Problem problem : problems())
    for (const char* precision : {"fp32", "bf16"}) {
      problem.kv_heads = 4, problem.precision = precision;
      if (!problem.latent.empty())
        problem.latent = R"({"kv_rank": 16, "q_rank": 16, "rope_dim": 4, "value_dim": 8})";
      Layout layout;
      layout.accumulation = 2;
      expect_bits_of_plain_base(problem, layout);
    }
}

struct Divided {
  Problem problem;
  Layout layout;
};

/// The cases have ranks that divide heads and features: alone; more ranks than key/value heads; in a
/// pipeline; with latent attention and with a shared expert, combined with other axes. Each tensor has
/// several groups of absmax.
std::vector<Divided> divided() {
  std::vector<Divided> all(5);
  for (Divided& d : all) {
    d.problem = problems()[1];
    d.problem.width = 128, d.problem.head_dim = 64, d.problem.kv_heads = 4, d.problem.mlp_width = 384;
    d.layout.tp = 2, d.layout.accumulation = 2;
  }
  const std::vector<Problem> base = problems();
  all[0].problem.like_gpt2 = true, all[0].problem.adapter = base[0].adapter;
  all[1].problem.kv_heads = 2, all[1].problem.mlp_width = 256, all[1].layout.tp = 4;
  all[2].layout.pp = 2, all[2].layout.schedule = "zb_h1", all[2].layout.sequence_parallel = false;
  all[3].problem.latent = R"({"kv_rank": 64, "q_rank": 128, "rope_dim": 4, "value_dim": 32})";
  all[3].problem.adapter = base[2].adapter;
  all[3].layout.dp_shard = 2, all[3].layout.stage = 3;
  all[4].problem.experts = R"({"experts": 6, "top_k": 2, "width": 20, "shared_width": 128})";
  all[4].problem.adapter = base[3].adapter, all[4].layout.cp = 2;
  return all;
}

TEST(Nf4Base, RanksThatDivideItTrainTheBitsOfAPlainBaseToo) {
  for (Divided& d : divided())
    for (const char* precision : {"fp32", "bf16"}) {
      d.problem.precision = precision;
      expect_bits_of_plain_base(d.problem, d.layout);
    }
}

TEST(Nf4Base, RanksThatDivideItHaveTheNumbersOfOne) {
  for (const Divided& d : divided()) {
    LayoutRun one(d.problem, {}), several(d.problem, d.layout);
    for (const Json& p : Json::parse(one.trainer().tensors().json()))
      EXPECT_EQ(weight(several.trainer(), p), weight(one.trainer(), p)) << p.at("name");
    expect_near_one_rank(d.problem, d.layout, 3, 5e-4);
  }
}

TEST(Nf4Base, EveryStageGivesTheBitsOfDdpWhereRanksDivideIt) {
  for (const Divided& d : divided()) {
    Layout ddp = d.layout;
    ddp.dp_shard = 2, ddp.stage = 0;
    for (const int64_t stage : {1, 2, 3}) {
      Layout other = ddp;
      other.stage = stage;
      expect_same_bits(d.problem, ddp, other, 3);
    }
  }
}

TEST(Nf4Base, EveryStageGivesTheBitsOfDdp) {
  for (const Problem& problem : problems()) expect_stages_same_bits(problem, 3);
  Layout ddp, groups;
  ddp.dp_shard = groups.dp_shard = 4, ddp.accumulation = groups.accumulation = 2;
  groups.stage = 3, groups.reshard = "group", groups.reshard_group = 2;
  expect_same_bits(problems()[1], ddp, groups, 3);
}

TEST(Nf4Base, EveryScheduleGivesTheBitsOfOneStage) {
  for (const Problem& problem : problems()) expect_schedules_same_bits(problem, 3);
}

TEST(Nf4Base, RecomputeChangesNoBit) {
  for (const Problem& problem : problems()) {
    Layout kept, again;
    again.recompute = R"({"policy": "full"})";
    expect_same_bits(problem, kept, again, 3);
  }
}

TEST(Nf4Base, IsProven) {
  std::vector<Divided> all = divided();
  for (const Problem& problem : problems()) {
    Layout layout;
    layout.dp_shard = 2, layout.stage = 3, layout.accumulation = 2;
    all.push_back({problem, layout});
  }
  for (const Divided& d : all) {
    const auto proof = Json::parse(
        train::prove_layout(config::ConfigTree::from_json(layout_config(d.problem, d.layout)), 3));
    EXPECT_TRUE(proof.at("equal").get<bool>()) << d.problem.adapter << ": " << proof.dump();
  }
}

TEST(Nf4Base, IsNeitherSetNorSavedWithoutAFolderOfItsOwn) {
  LayoutRun run(problems()[0], {});
  const auto refused = [](Code code, const char* words, auto call) {
    try {
      call();
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
    }
  };
  std::vector<float> zeros(40 * 24);
  refused(Code::kFailedPrecondition, "kept in nf4", [&] {
    run.trainer().tensors().set(TensorKind::kWeight, "blocks.0.mlp.up.weight", zeros.data(),
                                zeros.size() * 4);
  });
  refused(Code::kUnimplemented, "so it has no view",
          [&] { run.trainer().tensors().location(TensorKind::kWeight, "blocks.0.mlp.up.weight"); });
  refused(Code::kFailedPrecondition, "/init/from", [&] { run.trainer().saves().save("/nowhere/saved"); });
}

}  // namespace nf4_test
}  // namespace hawser::testing
