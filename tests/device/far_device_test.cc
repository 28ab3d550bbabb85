// Tests the engine on a device whose memory the host cannot access and whose work is late
// (tests/harness/far_device). All results are bit-identical to the CPU's: a stray access, a missing copy or a
// missing wait would change them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/device/arena.h"
#include "engine/device/cpu/thread_pool.h"
#include "engine/device/host_link.h"
#include "engine/proof/prove_layout.h"
#include "engine/ranks/choose_device.h"
#include "engine/report/device_report.h"
#include "engine/report/plan_report.h"
#include "kernels/include/levels.h"
#include "tests/device/far_run.h"
#include "tests/harness/equal_tensors.h"
#include "tests/harness/far_device/far_device.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace far_device_test {

using nlohmann::json;
using train::TensorKind;
using train::Trainer;

std::shared_ptr<device::Device> open_far(Stream& stream) {
  device::DeviceRequest request;
  request.host_stream = &stream;
  request.host_kernels = &kernels::cpu_kernels(kernels::best_cpu_level());
  return device::open_device(device::open_cuda_plugin(), request);
}

class FarMemory : public ::testing::Test {
 protected:
  device::ThreadPool pool_{1};
  std::shared_ptr<device::Device> device_ = open_far(pool_.stream());
};

TEST_F(FarMemory, CannotBeTouchedByTheHost) {
  const auto arena = device::Arena::create(device_, 10000);
  EXPECT_DEATH(arena->data()[9999] = 1, "");
  EXPECT_DEATH(std::printf("%d", arena->data()[0]), "");
}

TEST_F(FarMemory, IsZeroAndComesBackOnlyToThoseWhoWait) {
  device::HostLink link(device_);
  ASSERT_FALSE(link.in_place());
  const auto arena = device::Arena::create(device_, 64);
  std::vector<char> sent(64, 'a'), fetched(64, '-'), read(64, '-');
  link.read(read.data(), arena->data(), 64);
  EXPECT_EQ(read, std::vector<char>(64, 0));
  link.send(arena->data(), sent.data(), 64);
  link.zero(arena->data() + 32, 32);
  link.fetch(fetched.data(), arena->data(), 64);
  EXPECT_EQ(fetched, std::vector<char>(64, '-')) << "nobody waited yet";
  link.wait();
  EXPECT_EQ(std::string(fetched.data(), 33), std::string(32, 'a') + '\0');
}

TEST_F(FarMemory, TakesWhatIsSentUntilItIsTaken) {
  device::HostLink link(device_);
  const auto arena = device::Arena::create(device_, 8);
  char value = 'a', back = '-';
  link.wait_sent();  // nothing was sent
  link.send(arena->data(), &value, 1);
  link.wait_sent();
  value = 'b';
  link.read(&back, arena->data(), 1);
  EXPECT_EQ(back, 'a');
}

/// Routing, sorted rows and the routers' tallies stay on the device; the tallies are copied to the host with
/// the norm.
TEST(FarDevice, RoutesToExpertsAsTheCpuDoes) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const bool sigmoid : {true, false}) {
      Problem problem;
      problem.precision = precision, problem.like_gpt2 = sigmoid;
      problem.experts = sigmoid ? R"({"experts": 6, "width": 16, "score": "sigmoid", "shared_width": 12})"
                                : R"({"experts": 5, "top_k": 1, "width": 20, "layers": [1]})";
      problem.moe = sigmoid ? R"({"balance_rate": 0.05, "z_loss": 0.1})" : R"({"aux_loss": 0.2})";
      Layout layout;
      layout.accumulation = 2;
      expect_far_like_cpu(problem, layout);
      layout.dp_shard = 2, layout.stage = 3;
      expect_far_like_cpu(problem, layout);
      layout.recompute = R"({"policy": "full"})", layout.tp = 2, layout.dp_shard = 1, layout.stage = 0;
      expect_far_like_cpu(problem, layout);
    }
}

/// Exchanges within a block are staged through host memory.
TEST(FarDevice, DividesBlocksAndColumnsAsTheCpuDoes) {
  for (const char* precision : {"fp32", "bf16"})
    for (const auto& [tp, cp, mode] : {std::tuple<int64_t, int64_t, const char*>{2, 1, "ring"},
                                       {1, 2, "ring"},
                                       {1, 2, "ulysses"},
                                       {2, 2, "gather"}})
      for (const bool sequence_parallel : {true, false}) {
        if (tp == 1 && sequence_parallel) continue;
        Problem problem;
        problem.precision = precision, problem.documents = true;
        Layout layout;
        layout.tp = tp, layout.cp = cp, layout.cp_mode = mode, layout.sequence_parallel = sequence_parallel;
        layout.dp_shard = 2, layout.stage = 3;
        expect_far_like_cpu(problem, layout);
      }
}

TEST(FarDevice, TrainsAsTheCpuDoes) {
  for (const char* precision : {"fp32", "bf16"})
    for (const int64_t accumulation : {1, 3}) {
      Problem problem;
      problem.precision = precision, problem.tied = accumulation == 1;
      Layout layout;
      layout.accumulation = accumulation;
      expect_far_like_cpu(problem, layout);
    }
  Problem sgd;
  sgd.optimizer = "sgd", sgd.frozen = true;
  Layout tree;
  tree.accumulation = 4, tree.tree = true;
  expect_far_like_cpu(sgd, tree);
}

TEST(FarDevice, TrainsOnRanksAsTheCpuDoes) {
  Problem problem;
  problem.precision = "bf16";
  for (int64_t stage = 0; stage <= 3; ++stage)
    for (const char* reduce : {"per_step", "per_micro_batch"}) {
      Layout layout;
      layout.dp_shard = 3, layout.stage = stage, layout.accumulation = 2, layout.reduce = reduce;
      problem.frozen = stage == 1;
      expect_far_like_cpu(problem, layout);
    }
  Layout two;
  two.dp_shard = 2, two.stage = 3;
  expect_far_like_cpu(Problem(), two);
  Layout group;
  group.dp_shard = 4, group.stage = 3, group.reshard = "group", group.reshard_group = 2;
  expect_far_like_cpu(problem, group);
  Layout hybrid;
  hybrid.dp_replicate = 2, hybrid.dp_shard = 2, hybrid.stage = 2, hybrid.accumulation = 2;
  hybrid.reduce = "per_micro_batch", hybrid.gradient_type = "bf16";
  expect_far_like_cpu(problem, hybrid);
}

TEST(FarDevice, TrainsOnPairsAsTheCpuDoes) {
  Problem problem;
  Layout layout;
  problem.precision = "bf16", layout.dp_shard = layout.cp = 2, layout.stage = 3;
  for (const char* objective : {R"({"kind": "dpo"})", R"({"kind": "reward"})"})
    problem.objective = objective, expect_far_like_cpu(problem, layout);
}

TEST(FarDevice, IsProvenAgainstRanksThatArePlayedOnIt) {
  Problem problem;
  problem.device = "cuda", problem.precision = "bf16";
  Layout layout;
  layout.dp_shard = 2, layout.stage = 3, layout.accumulation = 2;
  const json proof =
      json::parse(train::prove_layout(config::ConfigTree::from_json(layout_config(problem, layout)), 2));
  EXPECT_TRUE(proof.at("equal").get<bool>()) << proof.at("first_difference");
}

/// Two engines of one config, on the CPU and on far devices, and the properties that must be equal.
class FarEngine : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Trainer> make(const std::string& device, bool inference = false, int32_t ranks = 1) {
    std::string more = R"(, "device": ")" + device + "\"";
    if (ranks > 1) more += R"(, "mesh": {"dp_shard": 2}, "zero": {"stage": 3})" + transport_of(device);
    config::ConfigTree config = small_config(tokens_, GetParam(), 2, more);
    config.set("/data/validation_fraction", "0.2");
    return Trainer::create(config, inference, &cancel_, ranks > 1 ? comm::make_local(ranks) : nullptr);
  }
  /// Selects transfers through host memory; far_peers_test.cc tests the others.
  static std::string transport_of(const std::string& device) {
    return device == "cuda" ? R"(, "comm": {"device_transport": "host"})" : "";
  }
  std::string path(const std::string& name) const { return folder_.file(name); }

  static std::vector<int32_t> generated(Trainer& trainer, int64_t tokens) {
    const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
    std::vector<int32_t> out;
    trainer.inference().generate({prompt.data(), 5, tokens, 0.8, 10, 0.9, 3, {}}, [&](int32_t token) {
      out.push_back(token);
      return true;
    });
    return out;
  }
  static std::vector<float> logits_of(Trainer& trainer) {
    std::vector<int32_t> tokens(5 * 24);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 7 % 53);
    std::vector<float> logits(tokens.size() * 53);
    trainer.inference().forward({5, 24, tokens.data(), nullptr, nullptr}, logits.data(),
                                logits.size() * sizeof(float));
    return logits;
  }

  ScratchFolder folder_;
  const std::string tokens_ = write_tokens(folder_, 20000);
  std::atomic<bool> cancel_{false};
};

TEST_P(FarEngine, EvaluatesGeneratesAndPredictsAsTheCpuDoes) {
  for (const int32_t ranks : {1, 2}) {
    const auto cpu = make("cpu", false, ranks), far = make("cuda", false, ranks);
    cpu->train_step(), far->train_step();
    const train::Evaluation a = cpu->inference().eval(nullptr, 3), b = far->inference().eval(nullptr, 3);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(logits_of(*cpu), logits_of(*far));
    EXPECT_EQ(generated(*cpu, 40), generated(*far, 40)) << "beyond the window of 24";
    cpu->train_step(), far->train_step();
    expect_equal_tensors(*cpu, *far);
  }
}

TEST_P(FarEngine, SavesAtOnceAndBesideTrainingWhatTheCpuLoads) {
  for (const int32_t ranks : {1, 2}) {
    const auto cpu = make("cpu", false, ranks), far = make("cuda", false, ranks);
    for (Trainer* t : {cpu.get(), far.get()}) t->train_step();
    const std::string at_once = path("at-once-" + std::to_string(ranks)),
                      beside = path("beside-" + std::to_string(ranks));
    far->saves().save(at_once);
    const auto operation = far->saves().save_async(beside);
    cpu->train_step(), far->train_step();
    EXPECT_TRUE(operation->wait(-1));
    for (const std::string& saved : {at_once, beside}) {
      const auto loaded = make("cpu");
      loaded->loads().load(saved, false);
      loaded->train_step();
      if (ranks == 1) expect_equal_tensors(*cpu, *loaded);
    }
  }
}

TEST_P(FarEngine, LoadsWhatTheCpuSavedAndGoesOn) {
  const auto cpu = make("cpu");
  cpu->train_step();
  cpu->saves().save(path("cpu"));
  cpu->train_step();
  const auto far = make("cuda");
  far->loads().load(path("cpu"), false);
  far->train_step();
  expect_equal_tensors(*cpu, *far);
}

TEST_P(FarEngine, SetsTensorsDiscardsStepsAndReportsStatistics) {
  const auto cpu = make("cpu"), far = make("cuda");
  std::vector<float> bias(40);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = 1.0f + 0.01f * static_cast<float>(i);
  for (Trainer* t : {cpu.get(), far.get()}) {
    t->tensors().set(TensorKind::kWeight, "final_norm.weight", bias.data(), bias.size() * sizeof(float));
    t->forward_backward();
  }
  EXPECT_EQ(cpu->tensors().statistics_json(), far->tensors().statistics_json());
  for (Trainer* t : {cpu.get(), far.get()}) {
    t->discard(false);
    t->train_step();
  }
  expect_equal_tensors(*cpu, *far);
}

TEST_P(FarEngine, ExportsAndStartsFromTheSameWeights) {
  const auto far = make("cuda");
  far->train_step();
  far->saves().save(path("saved"));
  const std::string from = R"(, "init": {"from": ")" + path("saved") + R"("}, "device": ")";
  const auto trainer = [&](const char* device) {
    return Trainer::create(small_config(tokens_, GetParam(), 1, from + device + "\""), true, &cancel_);
  };
  EXPECT_EQ(logits_of(*trainer("cpu")), logits_of(*trainer("cuda")));
  EXPECT_EQ(logits_of(*far), logits_of(*trainer("cuda")));
}

TEST_P(FarEngine, PlansItsMemoryToTheByte) {
  const auto far = make("cuda", false, 2);
  far->train_step();
  const json info = json::parse(far->reports().info_json()), memory = info.at("memory");
  EXPECT_EQ(info.at("device"), "cuda");
  EXPECT_EQ(info.at("device_name"), kFarName);
  EXPECT_EQ(info.at("device_without"), kFarWithout);
  EXPECT_FALSE(info.contains("choices")) << "there is nothing to prepare";
  EXPECT_EQ(memory.at("planned"), memory.at("high_water"));
  EXPECT_EQ(memory.at("planned_bytes"), memory.at("high_water_bytes"));
  EXPECT_GT(memory.at("host_staging_bytes").get<int64_t>(), 0);
  const auto cpu = make("cpu", false, 2);
  const json on_cpu = json::parse(cpu->reports().info_json()).at("memory");
  EXPECT_EQ(on_cpu.at("host_staging_bytes"), 0);
  // Only the zeros after the vocabulary's table differ: one shard as weights, two as moments, and two as
  // gradients, because the head shares the table.
  int64_t zeros = 0;
  const auto& on_far = far->ranks().table().groups();
  for (size_t g = 0; g < on_far.size(); ++g)
    zeros += on_far[g].elements - cpu->ranks().table().groups()[g].elements;
  EXPECT_GT(zeros, 0);
  json expected = on_cpu.at("planned");
  const int64_t bytes =
      zeros / 2 * (std::string(GetParam()) == "bf16_pure" ? 2 : 4);  // zeros of a shard of two ranks
  for (const auto& [category, shards] : {std::pair{"weights", 1}, {"gradients", 2}, {"optimizer", 2}})
    expected[category] = expected[category].get<int64_t>() + shards * bytes;
  EXPECT_EQ(memory.at("planned"), expected) << "logits are of another plan";
}

TEST_P(FarEngine, RefusesAViewAndWhatDoesNotFit) {
  const auto far = make("cuda");
  try {
    far->tensors().location(TensorKind::kWeight, "final_norm.weight");
    FAIL() << "the host could not read it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnimplemented);
    EXPECT_NE(error.message().find("hws_tensor_get"), std::string::npos) << error.message();
  }
  config::ConfigTree large = small_config(tokens_, GetParam(), 1, R"(, "device": "cuda")");
  large.set("/batch/micro_batch", "20000");
  try {
    Trainer::create(large, false, &cancel_);
    FAIL() << "more than the device has";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfMemory);
    EXPECT_NE(error.message().find("0.25 GiB are available"), std::string::npos) << error.message();
  }
}

TEST_P(FarEngine, TracesItsSteps) {
  const auto far = make("cuda", false, 2);
  far->traces().set(true, true);
  far->train_step();
  EXPECT_FALSE(json::parse(far->traces().report(train::TraceForm::kJson)).at("traceEvents").empty());
  EXPECT_NE(far->traces().profile_report(false).find("matmul"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Precisions, FarEngine, ::testing::Values("fp32", "bf16", "bf16_pure"),
                         [](const auto& info) { return std::string(info.param); });

TEST(FarDevice, IsWhatAutoTakes) {
  const train::DeviceChoice choice = train::choose_device("auto");
  EXPECT_EQ(choice.kind, device::Kind::kCuda);
  EXPECT_EQ(choice.devices.size(), 4u);
  EXPECT_EQ(choice.index_of(5), 1) << "ranks take turns";
  EXPECT_EQ(choice.sharing(5), 2);
  EXPECT_EQ(choice.reason, std::string("cuda, because ") + kFarName + " is there");
}

TEST(FarDevice, IsListed) {
  const json devices = json::parse(train::device_list_json());
  ASSERT_EQ(devices.size(), 5u);
  EXPECT_EQ(devices[2],
            json({{"name", kFarName}, {"kind", "cuda"}, {"index", 1}, {"total_bytes", kFarBytes}}));
}

TEST(FarDevice, HasAPlanThatShowsTheHostsStaging) {
  Problem problem;
  problem.device = "cuda", problem.device_transport = "host";
  Layout layout;
  layout.dp_shard = 2, layout.stage = 3;
  const config::ConfigTree config = config::ConfigTree::from_json(layout_config(problem, layout));
  const json plan = json::parse(train::plan_report(config, true));
  EXPECT_EQ(plan.at("device"), "cuda");
  LayoutRun run(problem, layout);
  EXPECT_EQ(plan.at("host_staging_bytes"),
            json::parse(run.trainer().reports().info_json()).at("memory").at("host_staging_bytes"));
  EXPECT_NE(train::plan_report(config, false).find("bytes of pinned memory"), std::string::npos);
}

}  // namespace far_device_test
}  // namespace hawser::testing
