// Tests of the bytes that the layers of a model read and write on a GPU, by the plan's own account. A change
// that adds bytes fails here. A change that saves bytes lowers the numbers.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/plan/step_work.h"
#include "tests/cluster/planned_stages.h"

namespace hawser::testing {
namespace layer_bytes_test {

/// Bytes of the operands of kernels, by name. The key "products" has those of all matrix products.
using Bytes = std::map<std::string, double>;

/// Returns the bytes of the forwards and backwards of all layers, for one token of one layer, divided by the
/// width d of the model. Products also read and write weights, once in a micro-batch.
Bytes layer_bytes(const std::string& config_json) {
  const PlannedStages planned(config_json, device::Kind::kCuda);
  const config::ResolvedConfig& config = planned.a.config;
  const plan::Plan& plan = planned.stages.front().train;
  Bytes bytes;
  for (const plan::Instruction& n : plan.instructions) {
    const bool computes = n.op == plan::Op::kForward || n.op == plan::Op::kBackward;
    const WorkList* const list = plan::calls_of(plan, n);
    if (!computes || n.block < 1 || n.block > config.model.layers || list == nullptr) continue;
    for (const KernelCalls& calls : *list)
      bytes[calls.m > 0 ? "products" : std::string(calls.kernel)] += calls.bytes;
  }
  const auto all = static_cast<double>(config.batch.global_batch * config.batch.sequence *
                                       config.model.layers * config.model.width);
  for (auto& [kernel, sum] : bytes) sum /= all;
  return bytes;
}

/// Returns the bytes of the residual stream and its norms, which all models have. Memory alone limits these
/// kernels.
double of_stream(const Bytes& bytes) {
  double sum = 0;
  for (const auto& [kernel, each] : bytes)
    if (kernel.rfind("norm_", 0) == 0 || kernel.rfind("residual_", 0) == 0) sum += each;
  return sum;
}

void print(const Bytes& bytes) {
  for (const auto& [kernel, each] : bytes) std::printf("  %-20s %8.3f d\n", kernel.c_str(), each);
  std::printf("  %-20s %8.3f d\n", "norms and residuals", of_stream(bytes));
}

/// Elements of the gradient of the residual stream have 4 bytes, inputs and outputs of products have 2, and
/// the stream has x. A layer has two norms. Both compute the sum before them, x + branch, except the first
/// norm of the lowest layer. The final norm computes the sum of the highest layer; it belongs to the head.
Bytes stream_of(double layers, double x = 4) {
  const double sum = 2 * x + 4;
  return {
      // Reads x and writes n; or reads x and a branch, and writes their sum and n.
      {"norm_forward", (x + 2 + sum * (layers - 1) + sum * layers) / layers},
      {"norm_backward", 2 * (8 + x + 6)}  // adds to dx and rounds it; reads dn and x, and writes n again
  };
}

TEST(LayerBytes, OfGpt2) {
  const Bytes bytes = layer_bytes(R"({"preset": "gpt2-124m", "precision": "bf16", "device": "cuda",
      "batch": {"micro_batch": 64, "grad_accum_steps": 1, "sequence": 1024}})");
  print(bytes);
  EXPECT_LE(of_stream(bytes), 60);
  Bytes expected = stream_of(12);
  expected["attention_forward"] = 4 * 2;   // q, k, v, o
  expected["attention_backward"] = 8 * 2;  // o and do besides, dq, dk, dv
  expected["products"] = 113.125;          // a branch's output and dn of each branch have 2 bytes
  EXPECT_EQ(bytes, expected);
}

TEST(LayerBytes, OfGpt2WithAResidualStreamOfBf16) {
  const Bytes bytes = layer_bytes(R"({"preset": "gpt2-124m", "precision": "bf16", "device": "cuda",
      "cuda": {"residual": "bf16"}, "batch": {"micro_batch": 64, "grad_accum_steps": 1, "sequence": 1024}})");
  print(bytes);
  EXPECT_LE(of_stream(bytes), 48);
  for (const auto& [kernel, each] : stream_of(12, 2)) EXPECT_EQ(bytes.at(kernel), each) << kernel;
}

/// Products write rounded gradients. 8 of 32 heads have keys and values, and the hidden layer is 3.5 times as
/// wide as the model.
TEST(LayerBytes, OfLlama8BWithLongRows) {
  const Bytes bytes = layer_bytes(R"({"preset": "llama-3.1-8b", "precision": "bf16_pure", "device": "cuda",
      "batch": {"micro_batch": 1, "grad_accum_steps": 1, "sequence": 8192}})");
  print(bytes);
  EXPECT_LE(of_stream(bytes), 60);
  Bytes expected = stream_of(32);
  expected["attention_forward"] = 2 * (2 + 0.5);
  expected["attention_backward"] = 2 * (4 + 2 * 0.5);
  expected["rope"] = 2 * 2 * 2 * (1 + 0.25);      // q and k, forward and backward
  expected["activation_forward"] = 3 * 2 * 3.5;   // gate, up and their product
  expected["activation_backward"] = 6 * 2 * 3.5;  // and its gradient, and those of gate and up
  expected["products"] = 141;                     // their gradients are bf16
  expected["convert"] = 2 * 6. / 8192;            // rounds the gradients of two norms
  EXPECT_EQ(bytes, expected);
}

}  // namespace layer_bytes_test
}  // namespace hawser::testing
