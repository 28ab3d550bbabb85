// Throughput of training GPT-2 124M on the CPU: 4 rows of 64 random tokens, AdamW, through the C API, in fp32
// and bf16. Prints the median tokens per second beside the limit of this machine, measured in the same run.
//
//   bench_gpt2_124m [--threads 2] [--steps 10] [--precision fp32|bf16]     (default: both precisions)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/machine_limits.h"
#include "tests/golden/engine_session.h"

namespace hawser::bench {
namespace {

using golden::EngineSession;
using golden::TokenBatch;
using nlohmann::json;

constexpr int64_t kRows = 4, kCols = 64, kVocab = 50257;
constexpr int kWarmUp = 2;

TokenBatch random_batch(std::mt19937& random) {
  std::uniform_int_distribution<int32_t> token(0, kVocab - 1);
  TokenBatch batch{kRows, kCols, {}, {}, {}};
  for (int64_t i = 0; i < kRows * kCols; ++i) {
    batch.tokens.push_back(token(random));
    batch.targets.push_back(token(random));
  }
  return batch;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(const std::string& precision, int threads, int steps, const MachineLimits& limits) {
  const json config = {{"preset", "gpt2-124m"},
                       {"precision", precision},
                       {"batch", {{"micro_batch", kRows}, {"grad_accum_steps", 1}, {"sequence", kCols}}},
                       {"cpu", {{"threads", threads}}}};
  EngineSession engine(config.dump());
  const json info = json::parse(engine.info());
  const double tokens = kRows * kCols;
  const double limit = limits.step_seconds(precision, info.at("flops_per_token").get<double>() * tokens,
                                           info.at("parameters").get<int64_t>());
  std::mt19937 random(1);
  std::vector<double> seconds;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    const hws_step_result result = engine.train_step(random_batch(random));
    if (step >= kWarmUp) seconds.push_back(result.seconds);
  }
  const double typical = median(seconds);
  std::printf(
      "%s: %.0f tokens/s (median of %d steps, %.0f ms, fastest %.0f ms); limit %.0f tokens/s, share %.0f "
      "%%\n",
      precision.c_str(), tokens / typical, steps, 1e3 * typical,
      1e3 * *std::min_element(seconds.begin(), seconds.end()), tokens / limit, 100 * limit / typical);
}

int main_with(int argc, char** argv) {
  int threads = 2, steps = 10;
  std::vector<std::string> precisions = {"fp32", "bf16"};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--threads") threads = std::atoi(argv[i + 1]);
    if (option == "--steps") steps = std::max(1, std::atoi(argv[i + 1]));
    if (option == "--precision") precisions = {argv[i + 1]};
  }
  try {
    const MachineLimits limits = measure_limits(threads, 2.0);
    std::printf(
        "GPT-2 124M, %lld x %lld tokens, %d threads; peaks %.0f GFLOP/s fp32, %.0f bf16; memory %.0f GB/s\n",
        static_cast<long long>(kRows), static_cast<long long>(kCols), threads, limits.fp32_flops * 1e-9,
        limits.bf16_flops * 1e-9, limits.bytes_per_second * 1e-9);
    for (const std::string& precision : precisions) run(precision, threads, steps, limits);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpt2_124m: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
