// Tests the update on the host's processor (/offload/optimizer host) for a device whose memory the host
// cannot access and whose work is late (tests/harness/far_device): every gradient, norm, weight and moment is
// bit-identical to a run without offload, and the plan moves the bytes of the closed form.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/parallel/offload.h"
#include "engine/proof/prove_layout.h"
#include "tests/device/far_run.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/random_config.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace far_host_update_test {

using train::Trainer;

constexpr const char* kOnHost = R"({"optimizer": "host"})";

void expect_resident_bits(const Problem& problem, const Layout& layout, const std::string& offload = kOnHost,
                          int steps = 3) {
  Layout away = layout;
  away.offload = offload;
  EXPECT_EQ(first_difference(reference_run(problem, layout, steps), run_layout(far(problem), away, steps)),
            "")
      << problem.precision << " " << problem.optimizer << " " << away.name();
}

TEST(FarHostUpdate, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const char* optimizer : {"adamw", "sgd"})
      for (const bool like_gpt2 : {true, false}) {
        Problem problem;
        problem.precision = precision, problem.optimizer = optimizer, problem.layers = 4;
        problem.tied = problem.like_gpt2 = like_gpt2, problem.frozen = !like_gpt2;
        Layout layout;
        layout.accumulation = 2;
        expect_resident_bits(problem, layout);
        expect_resident_bits(problem, layout, R"({"optimizer": "host", "prefetch": 3})");
      }
}

TEST(FarHostUpdate, ChangesNoBitInTwentySteps) {
  Problem problem;
  problem.precision = "bf16", problem.layers = 3;
  expect_resident_bits(problem, {}, kOnHost, 20);
}

TEST(FarHostUpdate, ChangesNoBitUnderAnyStage) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (int64_t stage = 0; stage <= 3; ++stage)
      for (const char* reduce : {"per_step", "per_micro_batch"}) {
        Problem problem;
        problem.precision = precision, problem.layers = 3, problem.frozen = stage == 1;
        Layout layout;
        layout.dp_shard = 3, layout.stage = stage, layout.accumulation = 2, layout.reduce = reduce;
        layout.bucket_bytes = stage == 2 ? 3000 : 0;
        expect_resident_bits(problem, layout);
      }
}

TEST(FarHostUpdate, ChangesNoBitUnderAnyLayout) {
  std::vector<Layout> layouts(11);
  layouts[0].dp_shard = 4, layouts[0].stage = 3, layouts[0].reshard = "group", layouts[0].reshard_group = 2;
  layouts[1].tp = 2, layouts[1].recompute = R"({"policy": "full"})";
  layouts[2].cp = 2, layouts[2].dp_shard = 2, layouts[2].stage = 1, layouts[2].bucket_bytes = 3000;
  layouts[3].pp = 2, layouts[3].tp = 2, layouts[3].recompute = R"({"policy": "full"})";
  layouts[4].pp = 2, layouts[4].dp_shard = 2, layouts[4].stage = 3, layouts[4].schedule = "gpipe";
  layouts[5].dp_replicate = 2, layouts[5].dp_shard = 2, layouts[5].stage = 1;
  layouts[6].pp = 2, layouts[6].schedule = "zbv", layouts[6].dp_shard = 2, layouts[6].stage = 2;
  layouts[7].dp_shard = 2, layouts[7].gradient_type = "bf16";
  layouts[8].dp_shard = 2, layouts[8].stage = 3, layouts[8].quantized_weights = "int8";
  layouts[8].quantized_gradients = "int4";
  layouts[9].pp = 2, layouts[9].schedule = "zb_h1";
  layouts[10].pp = 2, layouts[10].schedule = "interleaved", layouts[10].chunks = 2;
  for (size_t i = 0; i < layouts.size(); ++i)
    for (const bool tied : {true, false}) {
      layouts[i].accumulation = 4;
      Problem problem;
      problem.layers = 4, problem.precision = i % 2 == 0 ? "bf16" : "fp32", problem.tied = tied;
      if (i == 6 && !tied) problem.precision = "bf16_pure";
      expect_resident_bits(problem, layouts[i],
                           R"({"optimizer": "host", "prefetch": )" + std::to_string(1 + i % 3) + "}");
    }
}

/// The bias of a router that balances experts has no gradient: the device moves it, on every rank.
TEST(FarHostUpdate, MovesRoutersBiasesOnTheDevice) {
  Problem problem;
  problem.experts = R"({"experts": 4, "width": 16, "score": "sigmoid", "top_k": 2})";
  problem.moe = R"({"balance_rate": 0.05})";
  for (const int64_t stage : {0, 1, 3}) {
    Layout layout;
    layout.dp_shard = 2, layout.stage = stage, layout.ep = stage == 1 ? 2 : 1;
    for (const char* parameters : {"off", "host"})
      expect_resident_bits(problem, layout,
                           std::string(R"({"optimizer": "host", "parameters": ")") + parameters + "\"}");
  }
}

TEST(FarHostUpdate, TrainsAdapters) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem problem;
    problem.precision = precision, problem.adapter = R"({"rank": 2, "dora": true})";
    Layout layout;
    expect_resident_bits(problem, layout);
    layout.dp_shard = 2, layout.stage = 3;
    expect_resident_bits(problem, layout);
  }
}

TEST(FarHostUpdate, WorksBesideWhatElseLeavesTheArena) {
  const std::string folder = R"(, "folder": ")" + ::testing::TempDir() + "\"}";
  for (const std::string& offload :
       {std::string(R"({"optimizer": "host", "parameters": "host"})"),
        R"({"optimizer": "host", "parameters": "disk")" + folder,
        R"({"optimizer": "host", "parameters": "host", "activations": "disk", "prefetch": 2)" + folder,
        std::string(R"({"optimizer": "host", "activations": "host"})")})
    for (const char* precision : {"fp32", "bf16", "bf16_pure"})
      for (const int64_t stage : {0, 1, 3}) {
        Problem problem;
        problem.precision = precision, problem.layers = 4;
        Layout layout;
        layout.dp_shard = 2, layout.stage = stage, layout.accumulation = 2;
        expect_resident_bits(problem, layout, offload);
      }
}

/// Elements that a rank updates, with the padding of their groups: those that products read, and others.
struct Updated {
  int64_t products = 0, others = 0;
};

Updated updated(const train::Rank& rank) {
  Updated sum;
  for (size_t g = 0; g < rank.table().groups().size(); ++g) {
    const parallel::GroupLayout& group = rank.layout().group(static_cast<int32_t>(g));
    if (!group.here || !group.trainable) continue;
    (group.type == DType::kBf16 ? sum.products : sum.others) += rank.layout().state_elements(group);
  }
  return sum;
}

/// Gradients go to the host in their stored type, weights come back in theirs, and nothing else moves.
TEST(FarHostUpdate, MovesTheBytesOfTheClosedForm) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const int64_t stage : {0, 1, 2, 3}) {
      Problem problem;
      problem.precision = precision, problem.layers = 5, problem.frozen = stage == 2;
      Layout layout;
      layout.dp_shard = stage == 0 ? 1 : 3, layout.stage = stage, layout.offload = kOnHost;
      LayoutRun run(far(problem), layout);
      run.step();
      const train::Rank& rank = run.trainer().ranks().first();
      const plan::Plan& plan = rank.plans().train;
      const Updated phi = updated(rank);
      const int64_t narrow = std::string(precision) == "bf16_pure" ? 2 : 4;
      SCOPED_TRACE(std::string(precision) + " stage " + std::to_string(stage));
      EXPECT_EQ(phi.products > 0, narrow == 2 || std::string(precision) == "bf16");
      const int64_t down = narrow == 4 ? 4 * (phi.products + phi.others) : 2 * phi.products + 4 * phi.others,
                    up = 2 * phi.products + 4 * phi.others;
      EXPECT_EQ(parallel::offloaded_bytes(plan, plan::Space::kHost), down);
      EXPECT_EQ(parallel::fetched_bytes(plan, plan::Space::kHost), up);
      EXPECT_EQ(plan::persistent_bytes(plan, plan::Space::kArena, plan::Category::kOptimizer), 0);
      EXPECT_EQ(rank.executor().slots().high_water(), plan.peak_bytes);
      EXPECT_EQ(rank.executor().slots().live_at_peak(), plan.at_peak);
    }
}

/// Gradients leave in the first half and weights return in the second; the host updates, the device does not.
TEST(FarHostUpdate, HasALaneForTheHost) {
  Problem problem;
  problem.precision = "bf16", problem.layers = 4;
  Layout layout;
  layout.dp_shard = 2, layout.stage = 1, layout.offload = kOnHost;
  LayoutRun run(far(problem), layout);
  const plan::Plan& plan = run.trainer().ranks().first().plans().train;
  int64_t updates = 0;
  int32_t updated = -1;  // the last update for which the device has waited
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& n = plan.instructions[i];
    if (!n.on_host()) updated = std::max(updated, n.waits_for[plan::Lane::kHost]);
    updates += n.op == plan::Op::kOptimizerStep;
    EXPECT_EQ(n.on_host(), n.op == plan::Op::kOptimizerStep) << i;
    if (n.op == plan::Op::kOffload) {
      EXPECT_LT(i, plan.commit);
    }
    if (n.op != plan::Op::kFetch) continue;
    EXPECT_GE(i, plan.commit);
    ASSERT_GE(updated, 0) << i;
    EXPECT_EQ(plan.instructions[static_cast<size_t>(updated)].block, n.block) << "its weights are written";
  }
  EXPECT_EQ(updates, 6);
}

/// Gives a model sizes that a GPU's products of fp8 have.
void fit_fp8(nlohmann::json* config) {
  nlohmann::json& model = (*config)["model"];
  const int64_t step = 16 * (*config)["mesh"].value("tp", int64_t{1});
  for (const char* const size : {"width", "mlp_width"})
    model[size] = (model[size].get<int64_t>() + step - 1) / step * step;
  model["head_dim"] = 16;
}

/// Ranks whose state is in host memory have the bits of a serial replay, whatever else the config says.
TEST(FarHostUpdate, IsProvenForRandomConfigs) {
  size_t proven = 0;
  const std::vector<uint64_t> seeds = random_seeds(16);
  for (const uint64_t seed : seeds) {
    nlohmann::json config = nlohmann::json::parse(random_config(seed));
    replace_optimizers(&config, {"muon", "adamw8"});
    config["optimizer"].erase("qk_clip"), config.erase("teacher");  // CPU only
    config["model"].erase("ahead");                                 // CPU only
    if (config.contains("train")) config["train"].erase("ahead_weight");
    config["mesh"].erase("tp_chunks");  // between devices only
    config["device"] = "cuda", config["comm"]["device_transport"] = "host";
    config["offload"] = {{"optimizer", "host"}, {"prefetch", 1 + seed % 3}};
    if (seed % 2 == 0) config["offload"]["parameters"] = "host";
    if (seed % 5 == 0) config["offload"]["activations"] = "host";
    if (seed % 3 == 0) config["offload"]["gradients"] = "host";
    if (config["precision"] == "fp16") config["precision"] = "bf16", config.erase("loss_scale");  // CPU only
    if (config["precision"] == "fp8") fit_fp8(&config);
    try {
      const auto proof =
          nlohmann::json::parse(train::prove_layout(config::ConfigTree::from_json(config.dump()), 2));
      const nlohmann::json& choices = proof.at("choices_of_experts");
      if (!choices.is_null() && choices.at("moved") > 0) continue;  // two experts had nearly the same score
      EXPECT_TRUE(proof.at("equal").get<bool>()) << "HAWSER_SEED=" << seed << ' ' << config << '\n' << proof;
      ++proven;
    } catch (const Error& error) {  // SGD without momentum, and ranks that add before they reduce
      if (error.message().find("/offload/gradients \"host\": ") != std::string::npos) continue;
      EXPECT_NE(error.message().find("keeps no state"), std::string::npos)
          << "HAWSER_SEED=" << seed << ' ' << config << '\n'
          << error.message();
    }
  }
  EXPECT_GE(4 * proven, seeds.size());
}

/// Engines of one config on the CPU, on a far device, and on one whose state the host updates.
class FarHostEngine : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Trainer> make(bool on_host, int32_t ranks = 1, const std::string& extra = "") {
    std::string more = extra + R"(, "device": "cuda")";
    if (on_host) more += std::string(R"(, "offload": )") + kOnHost;
    if (ranks > 1)
      more += R"(, "mesh": {"dp_shard": 2}, "zero": {"stage": 3}, "comm": {"device_transport": "host"})";
    config::ConfigTree config = small_config(tokens_, GetParam(), 2, more);
    config.set("/data/validation_fraction", "0.2");
    return Trainer::create(config, false, &cancel_, ranks > 1 ? comm::make_local(ranks) : nullptr);
  }
  std::string path(const std::string& name) const { return folder_.file(name); }

  ScratchFolder folder_;
  const std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

TEST_P(FarHostEngine, EvaluatesBetweenSteps) {
  for (const int32_t ranks : {1, 2}) {
    const auto there = make(false, ranks), here = make(true, ranks);
    for (int step = 0; step < 3; ++step) {
      there->train_step(), here->train_step();
      EXPECT_EQ(there->inference().eval(nullptr, 3).loss, here->inference().eval(nullptr, 3).loss);
    }
    expect_equal_tensors(*there, *here);
  }
}

TEST_P(FarHostEngine, SavesAndLoadsFromAnyPlaceIntoAnyOther) {
  for (const int32_t ranks : {1, 2})
    for (const bool on_host : {true, false}) {
      const auto saved = make(on_host, ranks), other = make(!on_host, ranks), alone = make(!on_host, 1);
      saved->train_step();
      const std::string name = std::to_string(ranks) + (on_host ? "host" : "device");
      saved->saves().save(path(name));
      const auto operation = saved->saves().save_async(path(name + "-beside"));
      saved->train_step();
      EXPECT_TRUE(operation->wait(-1));
      for (const char* which : {"", "-beside"}) {
        other->loads().load(path(name + which), false);
        other->train_step();
        expect_equal_tensors(*saved, *other);
      }
      alone->loads().load(path(name), false);
      alone->train_step();
      if (ranks == 1) expect_equal_tensors(*saved, *alone);
    }
}

TEST_P(FarHostEngine, SetsTensorsDiscardsStepsAndReportsStatistics) {
  for (const int32_t ranks : {1, 2}) {
    const auto there = make(false, ranks), here = make(true, ranks);
    std::vector<float> values(40);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0f + 0.01f * static_cast<float>(i);
    for (Trainer* t : {there.get(), here.get()}) {
      t->train_step();
      t->tensors().set(train::TensorKind::kWeight, "final_norm.weight", values.data(),
                       values.size() * sizeof(float));
      t->forward_backward();
    }
    EXPECT_EQ(there->tensors().statistics_json(), here->tensors().statistics_json());
    for (Trainer* t : {there.get(), here.get()}) {
      t->discard(false);
      t->train_step();
      t->train_step();
    }
    expect_equal_tensors(*there, *here);
  }
}

TEST_P(FarHostEngine, TracesTheHostsLane) {
  const auto here = make(true, 2);
  here->traces().set(true, false);
  here->train_step();
  size_t updates = 0, names = 0;
  const auto trace = nlohmann::json::parse(here->traces().report(train::TraceForm::kJson));
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    updates += event.value("cat", "") == "host" &&
               event.at("name").get<std::string>().find("OPTIMIZER_STEP") != std::string::npos;
    names += event.contains("args") && event.at("args").value("name", "") == "host";
  }
  EXPECT_EQ(updates, 2 * 4) << "of two ranks: embedding, two blocks, head";
  EXPECT_EQ(names, 2);
}

INSTANTIATE_TEST_SUITE_P(Precisions, FarHostEngine, ::testing::Values("fp32", "bf16", "bf16_pure"));

/// A step whose gradients are not finite is skipped, and leaves state and weights as they were.
TEST(FarHostUpdate, SkipsStepsThatAreNotFinite) {
  const ScratchFolder folder;
  const std::string tokens = write_tokens(folder, 20000);
  std::atomic<bool> cancel{false};
  const auto make = [&](const std::string& more) {
    return Trainer::create(small_config(tokens, "bf16", 1, R"(, "device": "cuda")" + more), false, &cancel);
  };
  const auto there = make(""), here = make(std::string(R"(, "offload": )") + kOnHost);
  std::vector<float> bad(40, 1e38f), good(40, 1.0f);
  for (Trainer* t : {there.get(), here.get()}) {
    const auto set = [&](const std::vector<float>& values) {
      t->tensors().set(train::TensorKind::kWeight, "final_norm.weight", values.data(),
                       values.size() * sizeof(float));
    };
    t->train_step();
    set(bad);
    t->train_step();
    EXPECT_EQ(nlohmann::json::parse(t->metrics().json()).at("skipped"), 1);
    set(good);
    t->train_step();
  }
  expect_equal_tensors(*there, *here);
}

}  // namespace far_host_update_test
}  // namespace hawser::testing
