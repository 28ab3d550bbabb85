// Tests the rehearsal before the first step: products use the fastest algorithm of an emulated cuBLASLt, all
// ranks use the first rank's choice, steps have nothing more to prepare, and nothing else of an engine
// changes.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/base/error.h"
#include "tests/cuda_emulation/emulated_cublaslt.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/small_config.h"

namespace hawser::testing {
namespace rehearsal_test {

using cuda_emulation::CublasLtRecord;
using nlohmann::json;
using train::TensorKind;
using train::Trainer;

/// Returns a function of the opened plugin.
template <class Function>
Function* plugin_function(const char* name) {
  static void* const plugin = dlopen(HAWSER_EMULATED_PLUGIN, RTLD_NOW);
  if (plugin == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(dlsym(plugin, name));
}

class Rehearsal : public ::testing::Test {
 protected:
  void SetUp() override {
    record() = {};
    record().suggestions = 3;
    record().fastest = {1, 2, 0, 2};
  }
  void TearDown() override {
    name_gpu(1, "emulated GPU");
    EXPECT_EQ(record().live_objects, 0);
  }

  static CublasLtRecord& record() {
    return *plugin_function<CublasLtRecord*()>("hawser_emulated_cublaslt")();
  }
  static void name_gpu(int gpu, const char* name) {
    plugin_function<void(int, const char*)>("hawser_emulated_gpu_name")(gpu, name);
  }

  Problem problem(bool timed) const {
    Problem problem;
    problem.device = "cuda";
    problem.precision = "bf16";
    if (timed) problem.algorithm_cache = path_;
    return problem;
  }
  static Layout ranks(int64_t n) {
    Layout layout;
    layout.dp_shard = n;
    layout.stage = n > 1 ? 3 : 0;
    return layout;
  }
  /// Returns a config of a small model whose heads a library's attention supports.
  config::ConfigTree for_library_attention() const {
    config::ConfigTree config = small_config(write_tokens(folder_, 20000), "bf16");
    config.set("/model/heads", "5");
    config.set("/model/kv_heads", "1");
    config.set("/model/dropout", R"({"embedding": 0, "attention": 0, "residual": 0})");
    return config;
  }

  int64_t lines() const {
    int64_t lines = 0;
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }

  ScratchFolder folder_;
  const std::string path_ = folder_.file("algorithms");
};

json choices_of(const Trainer& trainer) { return json::parse(trainer.reports().info_json()).at("choices"); }

TEST_F(Rehearsal, TakesTheFastestBeforeTheFirstStep) {
  Layout layout = ranks(1);
  layout.accumulation = 2;
  LayoutRun run(problem(true), layout);
  const json choices = choices_of(run.trainer());
  EXPECT_EQ(choices.at("by"), "emulated GPU;cuBLASLt 130100;cuDNN 0;deterministic");
  EXPECT_EQ(choices.at("products").size(), 20u);  // 5 weights; their gradients also add
  EXPECT_EQ(static_cast<int64_t>(choices.at("products").size()), lines());
  for (const json& product : choices.at("products")) EXPECT_LT(product.at("nanoseconds"), 1'000'000'000);
  const CublasLtRecord before = record();
  record().algorithms = {};
  run.step();
  EXPECT_EQ(record().algorithms[0], 1u << 1);
  EXPECT_EQ(record().choices, before.choices) << "a step asked the library for algorithms";
  EXPECT_EQ(record().live_objects, before.live_objects) << "a step made descriptors";
}

TEST_F(Rehearsal, TimesNothingWithoutAFile) {
  LayoutRun run(problem(false), ranks(1));
  EXPECT_EQ(record().products, 0);
  const json choices = choices_of(run.trainer());
  for (const json& product : choices.at("products")) EXPECT_EQ(product.at("nanoseconds"), 0);
  run.step();
  EXPECT_EQ(record().algorithms[0], 1u);
}

TEST_F(Rehearsal, GivesAllRanksTheChoicesOfTheFirst) {
  for (const int later : {0, 1}) {
    LayoutRun run(problem(true), ranks(4));
    record().algorithms = {};
    run.step();
    for (const uint64_t algorithms : record().algorithms) EXPECT_EQ(algorithms, 1u << 1) << later;
    record().fastest = {2, 1, 1, 0};  // the next engine finds the file
  }
}

/// The last stage has products that the first stage lacks: its first rank chooses for them, and its other
/// rank follows.
TEST_F(Rehearsal, OfAPipelineChoosesForTheBlocksOfEachStage) {
  Layout one = ranks(1), stages = ranks(2);
  stages.pp = 2, stages.accumulation = one.accumulation = 2;
  LayoutRun alone(problem(false), one), run(problem(false), stages);
  const json want = choices_of(alone.trainer()).at("products"),
             got = choices_of(run.trainer()).at("products");
  EXPECT_EQ(std::set<json>(got.begin(), got.end()), std::set<json>(want.begin(), want.end()));
  const CublasLtRecord before = record();
  run.step();
  EXPECT_EQ(record().choices, before.choices) << "a step asked the library for algorithms";
}

TEST_F(Rehearsal, ChangesNothingElse) {
  for (const int64_t n : {1, 2}) {
    const auto timed = run_layout(problem(true), ranks(n), 2),
               first = run_layout(problem(false), ranks(n), 2);
    EXPECT_EQ(first_difference(timed, first), "");
    LayoutRun engine(problem(true), ranks(n)), other(problem(false), ranks(n));
    for (const json& t : json::parse(engine.trainer().tensors().json())) {
      const auto name = t.at("name").get<std::string>();
      const auto count = t.at("count").get<size_t>();
      EXPECT_EQ(tensor(engine.trainer(), TensorKind::kWeight, name, count),
                tensor(other.trainer(), TensorKind::kWeight, name, count));
      EXPECT_EQ(tensor(engine.trainer(), TensorKind::kMoment2, name, count), std::vector<float>(count));
    }
  }
}

TEST_F(Rehearsal, LeavesTheNumbersOfTheCpu) {
  Problem gpu = problem(true);
  gpu.precision = "fp32";
  Problem cpu = gpu;
  cpu.device = "cpu", cpu.algorithm_cache = "";
  const auto want = run_layout(cpu, ranks(1), 3), got = run_layout(gpu, ranks(1), 3);
  for (size_t step = 0; step < want.size(); ++step) EXPECT_NEAR(got[step].loss, want[step].loss, 1e-5);
}

/// Returns the error of creating an engine of two ranks.
std::string refusal(const Problem& problem, const Layout& layout) {
  try {
    const LayoutRun run(problem, layout);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST_F(Rehearsal, RefusesRanksOfAnotherKindUnlessTheyMayDiffer) {
  name_gpu(1, "another GPU");
  Problem mixed = problem(true);
  const std::string message = refusal(mixed, ranks(2));
  for (const char* part : {"rank 1", "\"emulated GPU;cuBLASLt", "\"another GPU;cuBLASLt", "/deterministic"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  mixed.deterministic = false;
  {
    LayoutRun run(mixed, ranks(2));
    EXPECT_NE(choices_of(run.trainer()).at("apart").get<std::string>().find("rank 1"), std::string::npos);
    record().algorithms = {};
    run.step();
    EXPECT_EQ(record().algorithms[0], 1u << 1);
    EXPECT_EQ(record().algorithms[1], 1u);
  }
}

TEST_F(Rehearsal, EndsTogetherWhereARankCannotTakeAChoice) {
  record().known = false;
  const std::string message = refusal(problem(true), ranks(3));
  for (const char* part : {"rank 1", "rejects the algorithm that the first rank chose"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(Rehearsal, EndsTogetherWhereTheFirstRankCannotWriteTheFile) {
  Problem unwritable = problem(true);
  unwritable.algorithm_cache = folder_.file("no/such/folder");
  for (const int64_t n : {1, 2}) {
    const std::string message = refusal(unwritable, ranks(n));
    EXPECT_NE(message.find("/cuda/algorithm_cache: cannot add to"), std::string::npos) << message;
  }
}

/// The model has rotary positions, and its head shares the embedding.
TEST_F(Rehearsal, MakesThePlansOfAttention) {
  auto* const plans = plugin_function<int64_t()>("hawser_emulated_sdpa_plans");
  config::ConfigTree config = for_library_attention();
  config.set("/data/packing", "false");
  config.set("/model/position", "\"rotary\"");
  std::atomic<bool> cancel{false};
  const double want = Trainer::create(config, false, &cancel)->train_step().loss;
  config.set("/device", "\"cuda\"");
  config.set("/cuda/algorithm_cache", json(path_).dump());
  const int64_t before = plans();
  const auto trainer = Trainer::create(config, false, &cancel);
  const int64_t made = plans();
  EXPECT_EQ(made - before, 4);  // two windows, in both directions
  EXPECT_NEAR(trainer->forward_backward().loss, want, 1e-3 * want);
  for (const json& gradient : json::parse(trainer->tensors().statistics_json()))
    EXPECT_GT(gradient.at("norm"), 0) << gradient << ": without positions queries and keys have none";
  trainer->commit();
  trainer->inference().eval(nullptr, 1);
  EXPECT_EQ(plans(), made);
}

/// Dropout excludes the library from training, but not from evaluation, which runs in the plan of a step.
TEST_F(Rehearsal, MakesThePlansOfAnEvaluationWithoutDropout) {
  auto* const plans = plugin_function<int64_t()>("hawser_emulated_sdpa_plans");
  config::ConfigTree config = for_library_attention();
  config.set("/data/packing", "false");
  config.set("/model/dropout/attention", "0.1");
  std::atomic<bool> cancel{false};
  const auto cpu = Trainer::create(config, false, &cancel);
  config.set("/device", "\"cuda\"");
  const auto trainer = Trainer::create(config, false, &cancel);
  const double want = cpu->train_step().loss, evaluated = cpu->inference().eval(nullptr, 1).loss;
  EXPECT_NEAR(trainer->train_step().loss, want, 1e-3 * want);
  const int64_t made = plans();
  EXPECT_NEAR(trainer->inference().eval(nullptr, 1).loss, evaluated, 1e-3 * evaluated);
  EXPECT_EQ(plans(), made);
}

/// Each of the six weights of a block, of which one product reads three, is multiplied in forward and in both
/// parts of the backward; graphs launch the same products.
TEST_F(Rehearsal, PreparesProductsOfFp8) {
  for (const char* recipe : {R"({"history": 2})", R"({"recipe": "current"})"}) {
    record() = {};
    Problem fp8 = problem(false);
    fp8.precision = "fp8", fp8.fp8 = recipe, fp8.optimizer = "sgd", fp8.weights_every = 0;
    fp8.width = 32, fp8.mlp_width = 64, fp8.kv_heads = 4, fp8.sequence = 16, fp8.dropout = 0;
    Problem cpu = fp8, direct = fp8;
    cpu.device = "cpu", direct.graphs = false;
    LayoutRun run(fp8, ranks(1));
    EXPECT_EQ(record().codes, 0);
    const CublasLtRecord before = record();
    std::vector<StepRecord> steps = {run.step()};
    EXPECT_EQ(record().codes, 2 * 6 * 3);
    EXPECT_EQ(record().choices, before.choices) << "a step asked the library for algorithms";
    for (int step = 1; step < 4; ++step) steps.push_back(run.step());
    EXPECT_EQ(first_difference(run_layout(direct, ranks(1), 4), steps), "");
    const auto want = run_layout(cpu, ranks(1), 4);
    for (size_t step = 0; step < want.size(); ++step)
      EXPECT_NEAR(steps[step].loss, want[step].loss, 1e-3 * want[step].loss);
    const json info = json::parse(run.trainer().reports().info_json());
    EXPECT_FALSE(info.contains("device_without")) << info.at("device_without");
    EXPECT_EQ(info.at("graphs").at("launched"), 3 * info.at("graphs").at("captured").get<int64_t>());
    EXPECT_GT(info.at("graphs").at("captured"), 0);
  }
}

/// The numbers are the same, multiplied as bf16.
TEST_F(Rehearsal, TellsWhereTheGpuHasNoProductsOfFp8) {
  Problem fp8 = problem(false);
  fp8.precision = "fp8", fp8.width = 32, fp8.mlp_width = 64, fp8.kv_heads = 4, fp8.sequence = 16,
  fp8.dropout = 0;
  auto* const capability = plugin_function<void(int)>("hawser_emulated_gpu_capability");
  capability(80);
  LayoutRun run(fp8, ranks(1));
  capability(90);
  run.step();
  EXPECT_EQ(record().codes, 0);
  const std::string without = json::parse(run.trainer().reports().info_json()).at("device_without");
  EXPECT_NE(without.find("no fp8 (compute capability 8.9"), std::string::npos) << without;
}

/// A slower fallback must be reported.
TEST_F(Rehearsal, TellsWhereTheLibraryHasNoPlanOfAttention) {
  auto* const need = plugin_function<void(int64_t)>("hawser_emulated_gpu_sdpa");
  config::ConfigTree config = for_library_attention();
  config.set("/device", "\"cuda\"");
  std::atomic<bool> cancel{false};
  EXPECT_FALSE(
      json::parse(Trainer::create(config, false, &cancel)->reports().info_json()).contains("device_without"));
  need(int64_t{1} << 40);
  const auto trainer = Trainer::create(config, false, &cancel);
  need(1024);
  const std::string without = json::parse(trainer->reports().info_json()).at("device_without");
  for (const char* part : {"cuDNN 0 has no plan for the forward of attention over documents (", " heads of ",
                           "the engine's own kernel", "/deterministic false"})
    EXPECT_NE(without.find(part), std::string::npos) << without;
}

}  // namespace rehearsal_test
}  // namespace hawser::testing
