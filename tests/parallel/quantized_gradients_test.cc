// Quantised gradients (qgZ): they give the same bits however a run divides its work, also after a resume, and
// nearly the loss of exact gradients. Sums are compared with the formula in tests/comm (of arrays) and in
// serial_replay_test (of whole runs), bytes in ledger_test.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/config/config_tree.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_language.h"

namespace hawser::testing {
namespace quantized_gradients_test {

using Json = nlohmann::json;

Layout plain(const char* type, int64_t ranks, int64_t sum_group, const char* reduce) {
  Layout l;
  l.dp_shard = ranks, l.sum_group = sum_group, l.accumulation = 2, l.reduce = reduce;
  l.quantized_gradients = type;
  return l;
}

/// Records count from the first element of a parameter group, so shards, buckets and replicas do not change
/// them.
TEST(QuantizedGradients, GiveTheBitsOfDdpAtEveryStage) {
  for (const char* type : {"int8", "int4"})
    for (const char* reduce : {"per_step", "per_micro_batch"})
      for (const auto& [ranks, group] : {std::pair<int64_t, int64_t>{2, 0}, {3, 1}, {4, 2}, {6, 3}}) {
        Problem p;
        p.tied = ranks != 3, p.frozen = ranks == 4, p.precision = ranks == 2 ? "bf16" : "fp32";
        const Layout ddp = plain(type, ranks, group, reduce);
        const std::vector<StepRecord> expected = run_layout(p, ddp, 2);
        const auto expect_equal = [&](const Layout& l) {
          EXPECT_EQ(first_difference(expected, run_layout(p, l, 2)), "") << l.name();
        };
        for (const int64_t stage : {1, 2, 3}) {
          Layout l = ddp;
          l.stage = stage;
          if (stage < 3) l.bucket_bytes = stage == 1 ? 1 : 5000;
          if (stage == 3) l.reshard = "keep";
          expect_equal(l);
          if (group < 2) continue;
          l.bucket_bytes = 0, l.sum_group = 0, l.dp_replicate = ranks / group, l.dp_shard = group;
          expect_equal(l);
        }
      }
}

/// A pipeline computes the same gradients, and its stages have some of the parameter groups.
TEST(QuantizedGradients, GiveTheSameBitsInAPipeline) {
  Problem p;
  p.layers = 4;
  for (const bool tied : {true, false})
    for (const char* type : {"int8", "int4"}) {
      p.tied = tied;
      Layout ddp = plain(type, 2, 0, "per_step");
      const std::vector<StepRecord> expected = run_layout(p, ddp, 2);
      for (const int64_t stage : {0, 1}) {
        Layout l = ddp;
        l.pp = 2, l.stage = stage;
        EXPECT_EQ(first_difference(expected, run_layout(p, l, 2)), "") << l.name();
        if (stage == 0) continue;
        l.schedule = "zb_h1", l.reduce = "per_step";
        EXPECT_EQ(first_difference(expected, run_layout(p, l, 2)), "") << l.name();
      }
    }
}

TEST(QuantizedGradients, OfExpertsAndAdaptersGiveTheBitsOfDdp) {
  Problem experts;
  experts.like_gpt2 = false, experts.experts = R"({"experts": 4, "top_k": 2, "width": 20})";
  Problem adapter;
  adapter.adapter = R"({"rank": 3, "dora": true, "base": "nf4"})";
  for (const Problem& p : {experts, adapter}) {
    const Layout ddp = plain("int8", 4, 2, "per_step");
    const std::vector<StepRecord> expected = run_layout(p, ddp, 2);
    for (const int64_t stage : {1, 3}) {
      Layout l = ddp;
      l.stage = stage;
      EXPECT_EQ(first_difference(expected, run_layout(p, l, 2)), "") << l.name();
    }
  }
}

/// Experts that only one rank of a replica has are sent in records once, between the replicas.
TEST(QuantizedGradients, OfDividedExpertsGiveTheBitsOfDdp) {
  Problem p;
  p.like_gpt2 = false, p.experts = R"({"experts": 4, "top_k": 2, "width": 20})", p.dropout = 0;
  Layout ddp = plain("int8", 4, 2, "per_step");
  ddp.ep = 2;
  const std::vector<StepRecord> expected = run_layout(p, ddp, 2);
  for (const int64_t stage : {1, 2, 3}) {
    Layout l = ddp;
    l.stage = stage;
    EXPECT_EQ(first_difference(expected, run_layout(p, l, 2)), "") << l.name();
    l.sum_group = 0, l.dp_replicate = l.dp_shard = 2;
    EXPECT_EQ(first_difference(expected, run_layout(p, l, 2)), "") << l.name();
  }
}

TEST(QuantizedGradients, DifferFromExactOnesAndFromEachOther) {
  std::vector<std::vector<StepRecord>> runs;
  for (const char* type : {"off", "int8", "int4"})
    runs.push_back(run_layout(Problem(), plain(type, 4, 2, "per_step"), 1));
  for (size_t i = 0; i < runs.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(first_difference(runs[i], runs[j]), "") << i << " and " << j;
  // Norms, biases and tables are sent as they are: their gradients are the same bits.
  const auto& exact = runs[0][0].gradients;
  for (const auto& [name, values] : runs[2][0].gradients) {
    const bool same = values == exact.at(name);
    const bool products = name.find("embedding") == name.npos && name.find("norm") == name.npos &&
                          name.find("bias") == name.npos;
    EXPECT_EQ(same, !products) << name;
  }
}

TEST(QuantizedGradients, LearnAsExactOnes) {
  Layout layout;
  layout.dp_shard = 4, layout.sum_group = 2, layout.stage = 1;
  const double exact = learned_loss(layout);
  EXPECT_LT(exact, 0.5 * std::log(53.0));  // it has learned
  for (const char* type : {"int8", "int4"}) {
    layout.quantized_gradients = type;
    EXPECT_NEAR(learned_loss(layout), exact, 0.01 * exact) << type;
  }
}

/// Makes a trainer of a config over ranks as threads.
std::unique_ptr<train::Trainer> trainer_of(const Json& json, int32_t ranks) {
  static std::atomic<bool> cancel{false};
  return train::Trainer::create(config::ConfigTree::from_json(json.dump()), false, &cancel,
                                comm::make_local(ranks));
}

/// Returns the weights after three steps, one parameter after the other.
std::vector<float> weights_with(int64_t threads) {
  const Problem p;
  const Layout layout = plain("int4", 4, 2, "per_micro_batch");
  Json json = Json::parse(layout_config(p, layout));
  json["cpu"]["threads"] = threads;
  const auto trainer = trainer_of(json, 4);
  for (int64_t step = 0; step < 3; ++step) {
    const Rows rows = rows_of(p, p.micro_batch * layout.accumulation * layout.dp(), step);
    trainer->push(rows.view());
    trainer->forward_backward();
    trainer->commit();
  }
  std::vector<float> all, values;
  for (const Json& t : Json::parse(trainer->tensors().json())) {
    values.resize(t.at("count").get<size_t>());
    trainer->tensors().get(train::TensorKind::kWeight, t.at("name").get<std::string>(), values.data(),
                           values.size() * sizeof(float));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(QuantizedGradients, GiveTheSameBitsForAnyNumberOfThreads) {
  EXPECT_TRUE(weights_with(1) == weights_with(12));
}

TEST(QuantizedGradients, GiveTheSameBitsAfterAResume) {
  const Problem p;
  Layout layout = plain("int4", 4, 2, "per_micro_batch");
  layout.stage = 2;
  const std::vector<StepRecord> expected = run_layout(p, layout, 4);
  const std::string folder = ::testing::TempDir() + "/quantized_gradients";
  std::filesystem::remove_all(folder);
  {
    LayoutRun run(p, layout);
    for (int step = 0; step < 2; ++step) run.step();
    run.trainer().saves().save(folder);
  }
  LayoutRun run(p, layout);
  run.trainer().loads().load(folder, false);
  run.skip_to(2);
  std::vector<StepRecord> resumed(expected.begin(), expected.begin() + 2);
  for (int step = 2; step < 4; ++step) resumed.push_back(run.step());
  EXPECT_EQ(first_difference(expected, resumed), "");
  std::filesystem::remove_all(folder);
}

/// If only norms and tables are trained, no gradient would be sent in records.
TEST(QuantizedGradients, AreRefusedWithoutATrainedProduct) {
  Json json = Json::parse(layout_config(Problem(), plain("int8", 2, 0, "per_step")));
  json["optimizer"]["frozen"] = {"blocks.*.attention.*", "blocks.*.mlp.*"};
  try {
    trainer_of(json, 2);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kConfigInvalid);
    EXPECT_NE(error.message().find("/zero/quantized_gradients: \"int8\" has no effect"), std::string::npos)
        << error.message();
  }
}

}  // namespace quantized_gradients_test
}  // namespace hawser::testing
