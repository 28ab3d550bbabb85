// Measures the throughput of training on the CPU: random tokens, AdamW, one micro-batch, through the C API.
// Prints the median tokens per second, the share of this machine's limit (measured in the same run),
// anonymous memory divided by the plan's, and another trainer's speed if its command is given.
//
//   bench_training [--preset gpt2-124m] [--rows 4] [--tokens 64] [--precision fp32|bf16|fp16|fp8]
//                  [--threads 2] [--steps 10] [--adapter stored|nf4|dora] [--peer 'COMMAND']
//
// --adapter trains an adapter of rank 16 on all linear layers: over a base as stored, over a base in NF4, or
// with magnitudes over a base as stored (dora). The limit is still that of training all weights.
//
// COMMAND is called with --shape PRESET --batch ROWS --seq TOKENS --dtype fp32|bf16 --threads N; its last
// line is a JSON object with tok_s_median.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/machine_limits.h"
#include "tests/bench/median.h"
#include "tests/bench/workload.h"
#include "tests/golden/engine_session.h"

namespace hawser::bench {
namespace {

using golden::EngineSession;
using golden::TokenBatch;
using nlohmann::json;

constexpr int kWarmUp = 2;
constexpr int64_t kGpt2Context = 1024;  ///< longer sequences get a longer table of positions, like the peer's

struct TrainingWorkload : Workload {
  std::string peer, adapter;
};

/// Returns the bytes of this process that no file backs; 0 if the system does not report them.
double anonymous_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  std::string word;
  while (in >> word)
    if (double kib = 0; word == "Anonymous:" && in >> kib) return 1024 * kib;
  return 0;
}

/// Returns the tokens per second of the peer.
double run_peer(const TrainingWorkload& w, const std::string& precision) {
  const std::string command = w.peer + " --shape " + w.preset + " --batch " + std::to_string(w.rows) +
                              " --seq " + std::to_string(w.cols) + " --dtype " + precision + " --threads " +
                              std::to_string(w.threads) + " --steps " + std::to_string(w.steps);
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string last, text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) {
    text += static_cast<char>(c);
    if (c == '\n') last.swap(text), text.clear();
  }
  if (pclose(pipe) != 0) throw std::runtime_error("the peer failed: " + command);
  return json::parse(last).at("tok_s_median").get<double>();
}

void report(const TrainingWorkload& w, const std::string& precision, const json& info,
            const std::vector<double>& seconds, double resident) {
  const MachineLimits limits = measure_limits(w.threads);
  const double typical = median(seconds), fastest = *std::min_element(seconds.begin(), seconds.end());
  const double limit = limits.step_seconds(precision, info.at("flops_per_token").get<double>() * w.tokens(),
                                           info.at("parameters").get<int64_t>());
  std::printf(
      "%s, %lld x %lld tokens, %s, %d threads: %.1f tokens/s (median of %zu steps, %.0f ms; fastest %.0f "
      "ms)\n",
      w.preset.c_str(), static_cast<long long>(w.rows), static_cast<long long>(w.cols), precision.c_str(),
      w.threads, w.tokens() / typical, seconds.size(), 1e3 * typical, 1e3 * fastest);
  std::printf(
      "  limit %.1f tokens/s (%.0f GFLOP/s fp32, %.0f bf16, %.0f GB/s): share %.1f %%, of the fastest %.1f "
      "%%\n",
      w.tokens() / limit, limits.fp32_flops * 1e-9, limits.bf16_flops * 1e-9, limits.bytes_per_second * 1e-9,
      100 * limit / typical, 100 * limit / fastest);
  const double planned = info.at("memory").at("arena_bytes").get<double>();
  std::printf("  anonymous memory %.3f GB, planned %.3f GB: %.3f\n", resident * 1e-9, planned * 1e-9,
              resident / planned);
}

void run(const TrainingWorkload& w, const std::string& precision) {
  const double before = anonymous_bytes();
  std::vector<double> seconds;
  {
    json config = config_of(w, precision);
    if (w.preset.starts_with("gpt2") && w.cols > kGpt2Context) config["model"] = {{"context", w.cols}};
    if (!w.adapter.empty())
      config["adapter"] = {
          {"rank", 16}, {"base", w.adapter == "dora" ? "stored" : w.adapter}, {"dora", w.adapter == "dora"}};
    EngineSession engine(config.dump());
    const json info = json::parse(engine.info());
    const auto vocab = info.at("model").at("vocab_size").get<int32_t>();
    std::mt19937 random(1);
    for (int step = 0; step < kWarmUp + w.steps; ++step) {
      const hws_step_result result = engine.train_step(random_batch(w, vocab, random));
      if (step >= kWarmUp) seconds.push_back(result.seconds);
    }
    report(w, precision, info, seconds, anonymous_bytes() - before);
  }
  if (w.peer.empty()) return;
  const double peer = run_peer(w, precision);
  std::printf("  peer %.1f tokens/s: ratio %.2f\n", peer, w.tokens() / median(seconds) / peer);
}

int main_with(int argc, char** argv) {
  TrainingWorkload w;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    w.read(option, argv[i + 1]);
    if (option == "--adapter") w.adapter = argv[i + 1];
    if (option == "--peer") w.peer = argv[i + 1];
  }
  try {
    for (const std::string& precision : w.precisions) run(w, precision);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_training: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
