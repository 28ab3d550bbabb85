// Tests `hawser plan --cluster` and `hawser device --measure`: steps on devices that are not here, and on
// this host by a table that it measured itself.
#include "tests/cli/run_command.h"

namespace hawser::cli_test {
namespace foretell_command_test {

using nlohmann::json;
using ForetellCommand = CommandTest;

TEST_F(ForetellCommand, PlansForGpusThatAreNotHere) {
  const std::string words = "plan gpt2-124m --set /precision=bf16 --cluster h100-80 --tokens 1e10";
  const CommandResult text = succeed(words);
  for (const char* const part :
       {"1 rank of H100 SXM 80 GB", "H100 SXM 80 GB", "MFU", "GPU-hours", "not modelled: ", "matmul_gelu"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  const json plan = json::parse(succeed(words + " --json").out);
  EXPECT_EQ(plan.at("device"), "cuda");
  EXPECT_GT(plan.at("foretold").at("tokens_per_second").get<double>(), 100e3);
  EXPECT_LT(plan.at("foretold").at("tokens_per_second").get<double>(), 1e6);
  EXPECT_GT(plan.at("foretold").at("run").at("days").get<double>(), 0);
}

TEST_F(ForetellCommand, WritesTheStepForViewers) {
  const std::string words =
      "plan gpt2-124m --set /precision=bf16 --set /mesh/pp=2 --cluster h100-80 --trace ";
  succeed(words + "step.json");
  const json trace = json::parse(read_text(path("step.json")));
  EXPECT_GT(trace.at("traceEvents").size(), 20u);
  EXPECT_EQ(trace.at("otherData").at("ranks").size(), 2u);
  succeed(words + "step.svg");
  EXPECT_EQ(read_text(path("step.svg")).rfind("<svg ", 0), 0u);
  refused("plan gpt2-124m --trace step.json", {"--trace", "--cluster"});
  refused("plan gpt2-124m --cluster h100-80 --search --trace step.json", {"--trace", "--search"});
}

/// A model of 405B parameters on 16,384 ranks, whose plan is made and played here.
TEST_F(ForetellCommand, PlansForAsManyRanksAsAMeshHas) {
  const json plan = json::parse(
      succeed("plan llama-3.1-405b --cluster h100-80 --json --set /mesh/tp=8 --set /mesh/pp=16"
              " --set /mesh/dp_shard=128 --set /pipeline/schedule=interleaved --set /pipeline/chunks=4"
              " --set /batch/micro_batch=1 --set /batch/grad_accum_steps=16 --set /batch/sequence=8192")
          .out);
  EXPECT_EQ(plan.at("ranks"), 16384);
  EXPECT_EQ(plan.at("foretold").at("stages").size(), 16u);
  EXPECT_GT(plan.at("foretold").at("mfu").get<double>(), 0.2);
  EXPECT_LT(plan.at("foretold").at("mfu").get<double>(), 0.7);
}

TEST_F(ForetellCommand, RefusesClustersWithAllTheirProblems) {
  write_text(path("bad.json"),
             R"({"name": "mine", "device": {"kind": "cuda", "lunch_seconds": 1}, "network": []})");
  refused("plan config.json --set /device=cuda --cluster bad.json",
          {"/device/memory_bytes: is missing", "/device/lunch_seconds: is unknown", "/network: is"});
  refused("plan gpt2-124m --cluster h100", {"h100-80"});
  refused("plan gpt2-124m --tokens 1e9", {"--tokens", "--cluster"});
  refused("plan gpt2-124m --set /device=cpu --cluster h100-80", {"/device is \"cpu\""});
}

/// The share of this host's peak that it foretells of its own steps. Shares change less than seconds while
/// other programs run; the host may try three times.
TEST_F(ForetellCommand, AHostForetellsItsOwnSteps) {
  const char* const config =
      R"({"device": "cpu", "model": {"layers": 3, "heads": 6, "width": 384, "mlp": "swiglu",
      "norm": "rms_norm", "position": "rotary", "context": 128},
    "data": {"format": "text", "vocabulary": "bytes"},
    "batch": {"micro_batch": 2, "grad_accum_steps": 2, "sequence": 128},
    "train": {"steps": 8, "eval_every": 0}})";
  write_text(path("own.json"), config);
  double ratio = 0;
  for (int tried = 0; tried < 3 && !(ratio > 0.6 && ratio < 1.7); ++tried) {
    const std::string table = "host" + std::to_string(tried) + ".json", run = "run" + std::to_string(tried);
    succeed("device --measure " + table);
    const std::string trained = succeed("train own.json --data text.txt --out " + run).out;
    const size_t mfu = trained.rfind("MFU ");
    ASSERT_NE(mfu, std::string::npos) << trained;
    const double measured = 0.01 * std::stod(trained.substr(mfu + 4));
    const json plan = json::parse(succeed("plan own.json --json --cluster " + table).out);
    ratio = plan.at("foretold").at("mfu").get<double>() / measured;
  }
  EXPECT_GT(ratio, 0.6);
  EXPECT_LT(ratio, 1.7);
  refused("device --measure host0.json", {"host0.json", "exists"});
}

}  // namespace foretell_command_test
}  // namespace hawser::cli_test
