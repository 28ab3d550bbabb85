// Measures saved activations in records of fp8 (/recompute/compress): an engine without and one with them, on
// the same random tokens, take steps in turn, so that a busy machine disturbs both. Prints the planned bytes
// of activations at the peak of a step, the median step of each, and the median of the ratios of neighbouring
// steps.
//
//   bench_compress [--preset gpt2-124m] [--rows 4] [--tokens 256] [--threads 2] [--steps 5]
//                  [--precision fp32|bf16]
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/median.h"
#include "tests/bench/workload.h"
#include "tests/golden/engine_session.h"

namespace hawser::bench {
namespace {

using golden::EngineSession;
using golden::TokenBatch;
using nlohmann::json;

constexpr int kWarmUp = 2;

std::string config_of(const Workload& w, const std::string& precision, const json& compress) {
  return json{{"preset", w.preset},
              {"precision", precision},
              {"batch", {{"micro_batch", w.rows}, {"grad_accum_steps", 1}, {"sequence", w.cols}}},
              {"cpu", {{"threads", w.threads}}},
              {"recompute", {{"compress", compress}}}}
      .dump();
}

void run(const Workload& w, const std::string& precision, const json& compress) {
  EngineSession plain(config_of(w, precision, json::array())), compressed(config_of(w, precision, compress));
  EngineSession* const sides[] = {&plain, &compressed};
  const json info = json::parse(plain.info());
  std::mt19937 random(1);
  const auto vocab = info.at("model").at("vocab_size").get<int32_t>();
  std::vector<double> seconds[2], ratios;
  for (int step = 0; step < kWarmUp + w.steps; ++step) {
    const TokenBatch batch = random_batch(w, vocab, random);
    double took[2] = {};
    for (const int turn : {0, 1}) {
      const int side = (turn + step) % 2;
      took[side] = sides[side]->train_step(batch).seconds;
    }
    if (step < kWarmUp) continue;
    for (const int side : {0, 1}) seconds[side].push_back(took[side]);
    ratios.push_back(took[1] / took[0]);
  }
  std::printf("%s, %lld x %lld tokens, %s, %d threads, compress %s: %.0f ms, %.0f ms, ratio %.3f",
              w.preset.c_str(), static_cast<long long>(w.rows), static_cast<long long>(w.cols),
              precision.c_str(), w.threads, compress.dump().c_str(), 1e3 * median(seconds[0]),
              1e3 * median(seconds[1]), median(ratios));
  for (EngineSession* side : sides) {
    const json memory = json::parse(side->info()).at("memory");
    std::printf("; planned %.1f MB, activations %.1f MB", memory.at("planned_bytes").get<double>() * 1e-6,
                memory.at("planned").at("activations").get<double>() * 1e-6);
  }
  std::printf("\n");
  std::fflush(stdout);
}

int main_with(int argc, char** argv) {
  Workload w;
  w.cols = 256, w.steps = 5;
  for (int i = 1; i + 1 < argc; i += 2) w.read(argv[i], argv[i + 1]);
  try {
    for (const std::string& precision : w.precisions)
      for (const json& compress : {json{"mlp_hidden"}, json{"mlp_hidden", "qkv", "attention"}})
        run(w, precision, compress);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_compress: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
