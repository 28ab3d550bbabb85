// Compares engines on an emulated GPU whose products compute GELU and the gradients of biases as epilogues
// with engines whose separate kernels do: all train to the CPU's numbers.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ranks/choose_device.h"
#include "tests/device/cuda/tensor_distance.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace epilogues_test {

struct Products {
  int64_t all = 0, gelu = 0, gelu_gradients = 0, bias_gradients = 0;
};

/// Controls the opened plugin's cuBLASLt. It has only one rank, so that its record has one writer.
class EmulatedProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    train::choose_device("cuda");  // opens the plugin
    plugin_ = dlopen(HAWSER_EMULATED_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(plugin_, nullptr) << dlerror();
  }
  void TearDown() override {
    if (plugin_ == nullptr) return;
    set_library(false, false);
    dlclose(plugin_);
  }

  void set_library(bool present, bool epilogues) {
    reinterpret_cast<void (*)(bool, bool)>(dlsym(plugin_, "hawser_emulated_gpu_cublaslt"))(present,
                                                                                           epilogues);
  }
  Products products() {
    Products p;
    reinterpret_cast<void (*)(int64_t*)>(dlsym(plugin_, "hawser_emulated_gpu_products"))(&p.all);
    return p;
  }
  /// Trains; on the GPU by default without graphs, so that the library is called for every product.
  std::vector<StepRecord> train(Problem problem, const std::string& device, bool graphs = false) {
    problem.device = device;
    problem.graphs = graphs || device == "cpu";
    Layout layout;
    layout.accumulation = 2;  // the second micro-batch adds to gradients
    return run_layout(problem, layout, 3);
  }

 private:
  void* plugin_ = nullptr;
};

void expect_near(const std::vector<StepRecord>& want, const std::vector<StepRecord>& got, double loss,
                 double gradients) {
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_LT(std::abs(want[i].loss - got[i].loss), loss * want[i].loss) << i;
    EXPECT_LT(tensor_distance(want[i].gradients, got[i].gradients), gradients) << i;
  }
}

Problem problem_in(const char* precision) {
  Problem problem;
  problem.precision = precision;
  problem.optimizer = "sgd";
  return problem;
}

TEST_F(EmulatedProducts, TrainInBf16AsTheCpuDoesWithAndWithoutEpilogues) {
  const Problem problem = problem_in("bf16");
  const auto cpu = train(problem, "cpu"), own = train(problem, "cuda");
  set_library(true, true);
  const auto fused = train(problem, "cuda");
  const Products with = products();
  EXPECT_EQ(first_difference(fused, train(problem, "cuda", true)), "");
  set_library(true, false);
  const auto parts = train(problem, "cuda");
  const Products without = products();
  // Two layers, two micro-batches and three steps, with one GELU in each direction and four bias gradients.
  EXPECT_EQ(with.gelu, 12);
  EXPECT_EQ(with.gelu_gradients, 12);
  EXPECT_EQ(with.bias_gradients, 48);
  EXPECT_EQ(without.gelu + without.gelu_gradients + without.bias_gradients, 0);
  EXPECT_EQ(with.all, without.all);
  // These are the bounds of train_test.cc.
  for (const auto* gpu : {&own, &fused, &parts}) expect_near(cpu, *gpu, 1e-4, 0.2);
  EXPECT_NE(first_difference(fused, parts), "");  // they round at different points
}

TEST_F(EmulatedProducts, LeaveGeluToItsKernelInFp32) {
  const Problem problem = problem_in("fp32");
  const auto cpu = train(problem, "cpu");
  set_library(true, true);
  const auto fused = train(problem, "cuda");
  EXPECT_EQ(products().gelu + products().gelu_gradients, 0);
  EXPECT_EQ(products().bias_gradients, 48);
  expect_near(cpu, fused, 1e-6, 1e-4);
}

/// The library rounds a bf16 result once, as ROUND_GRAD rounds an f32 one. One tile of all rows is the same
/// product, whose gradient is rounded from a window.
TEST_F(EmulatedProducts, RoundGradientsOnce) {
  Problem problem = problem_in("bf16_pure");
  problem.device = "cuda", problem.like_gpt2 = false;
  set_library(true, true);
  Layout layout;
  const auto rounding = run_layout(problem, layout, 2);
  EXPECT_GT(products().all, 0);
  layout.recompute = R"({"rows": 1000000})";
  EXPECT_EQ(first_difference(rounding, run_layout(problem, layout, 2)), "");
}

/// The same with biases: the product of the weight's gradient also rounds that of the bias, or a separate sum
/// does, without a window.
TEST_F(EmulatedProducts, RoundGradientsOfBiasesOnce) {
  Problem problem = problem_in("bf16_pure");
  problem.device = "cuda", problem.graphs = false;
  set_library(true, false);
  Layout tiles;
  tiles.recompute = R"({"rows": 1000000})";
  const auto parts = run_layout(problem, Layout(), 2);
  EXPECT_EQ(first_difference(parts, run_layout(problem, tiles, 2)), "");
  set_library(true, true);
  const auto fused = run_layout(problem, Layout(), 2);
  EXPECT_EQ(products().bias_gradients, 16);  // two layers and two steps, with four products each
  expect_near(parts, fused, 1e-3, 0.2);
}

}  // namespace epilogues_test
}  // namespace hawser::testing
