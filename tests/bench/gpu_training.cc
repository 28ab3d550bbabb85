// Measures the throughput of training on a GPU through the C API, on random tokens. Prints one JSON line with
// the keys of the program that does the same with PyTorch, so that a script can put both in one table
// (tests/gpu.sh).
//
//   bench_gpu_training --preset gpt2-124m [--precision bf16] [--micro-batch 64] [--accum 8] [--sequence 1024]
//   [--warm-up 3] [--steps 10] [--deterministic true] [--cuda JSON] [--profile false]
//
// --cuda is the config's /cuda section, such as {"algorithm_cache": "FILE"}. The line also holds the GPU, its
// driver and libraries, and the features that the engine had to do without, so that each number comes with
// its cause. --profile true adds a second line: the kernels of one more step, sorted by time, as
// hws_engine_profile reports them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/golden/engine_session.h"

namespace hawser::bench {
namespace {

using golden::EngineSession;
using golden::TokenBatch;
using nlohmann::json;

TokenBatch random_batch(std::mt19937& random, int64_t rows, int64_t cols, int32_t vocab) {
  std::uniform_int_distribution<int32_t> token(0, vocab - 1);
  TokenBatch batch{rows, cols, {}, {}, {}};
  for (int64_t i = 0; i < rows * cols; ++i) {
    batch.tokens.push_back(token(random));
    batch.targets.push_back(token(random));
  }
  return batch;
}

/// The first profiled step is a warm-up, so it is not counted.
void print_profile(EngineSession& engine, const TokenBatch& batch) {
  golden::check(hws_engine_set_trace(engine.handle(), HWS_TRACE_KERNELS), "hws_engine_set_trace");
  for (int step = 0; step < 2; ++step) engine.train_step(batch);
  hws_buffer* profile = nullptr;
  golden::check(hws_engine_profile(engine.handle(), HWS_FORMAT_JSON, &profile), "hws_engine_profile");
  std::printf("%s\n", json{{"profile", json::parse(golden::take_text(profile))}}.dump().c_str());
}

void run(const std::map<std::string, std::string>& options) {
  const auto number = [&](const char* name) { return std::strtoll(options.at(name).c_str(), nullptr, 10); };
  const int64_t micro_batch = number("--micro-batch"), accum = number("--accum"),
                sequence = number("--sequence");
  json config = {
      {"preset", options.at("--preset")},
      {"precision", options.at("--precision")},
      {"device", options.at("--device")},
      {"deterministic", options.at("--deterministic") == "true"},
      {"model", {{"context", sequence}}},
      {"batch", {{"micro_batch", micro_batch}, {"grad_accum_steps", accum}, {"sequence", sequence}}}};
  if (number("--layers") > 0) config["model"]["layers"] = number("--layers");
  if (options.at("--cuda") != "{}") config["cuda"] = json::parse(options.at("--cuda"));
  EngineSession engine(config.dump());
  json info = json::parse(engine.info());
  std::mt19937 random(1);
  const TokenBatch batch =
      random_batch(random, micro_batch * accum, sequence, info.at("model").at("vocab_size").get<int32_t>());
  std::vector<double> seconds;
  double first = 0, loss = 0;
  const int64_t warm_up = number("--warm-up");
  for (int64_t step = 0; step < warm_up + number("--steps"); ++step) {
    const hws_step_result result = engine.train_step(batch);
    loss = result.loss;
    if (step == 0) first = result.seconds;
    if (step >= warm_up) seconds.push_back(result.seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  const double tokens = static_cast<double>(micro_batch * accum * sequence);
  info = json::parse(engine.info());
  json line = {{"shape", options.at("--preset")},
               {"layers", info.at("model").at("layers")},
               {"batch", micro_batch},
               {"seq", sequence},
               {"accum", accum},
               {"dtype", options.at("--precision")},
               {"deterministic", options.at("--deterministic") == "true"},
               {"tok_s_median", tokens / seconds[seconds.size() / 2]},
               {"tok_s_best", tokens / seconds.front()},
               {"ms_median", 1e3 * seconds[seconds.size() / 2]},
               {"first_step_s", first},
               {"last_loss", loss},
               {"cuda", config.value("cuda", json::object())}};
  for (const char* const key : {"device_name", "device_without", "graphs_without", "graphs", "peer_links",
                                "registered_without", "device_reason"})
    if (info.contains(key)) line[key] = info.at(key);
  if (info.contains("choices")) line["libraries"] = info.at("choices").at("by");
  line["arena_bytes"] = info.at("memory").at("arena_bytes");
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
  if (options.at("--profile") == "true") print_profile(engine, batch);
}

int main_with(int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--preset", "gpt2-124m"}, {"--precision", "bf16"}, {"--device", "cuda"},   {"--micro-batch", "64"},
      {"--accum", "8"},          {"--sequence", "1024"},  {"--steps", "10"},      {"--deterministic", "true"},
      {"--warm-up", "3"},        {"--cuda", "{}"},        {"--profile", "false"}, {"--layers", "0"}};
  for (int i = 1; i < argc; i += 2) {
    if (options.count(argv[i]) == 0 || i + 1 == argc) {
      std::fprintf(stderr, "bench_gpu_training: %s is no option, or has no value\n", argv[i]);
      return 2;
    }
    options[argv[i]] = argv[i + 1];
  }
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_gpu_training: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace hawser::bench

int main(int argc, char** argv) { return hawser::bench::main_with(argc, argv); }
