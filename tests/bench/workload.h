// Workload: the model and the batches of a benchmark of training on the CPU, and its options of the command
// line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/golden/engine_session.h"

namespace hawser::bench {

struct Workload {
  std::string preset = "gpt2-124m";
  int64_t rows = 4, cols = 64;
  int threads = 2, steps = 10;
  std::vector<std::string> precisions = {"fp32", "bf16"};

  double tokens() const { return static_cast<double>(rows * cols); }
  /// Ignores other options.
  void read(const std::string& option, const char* value) {
    if (option == "--preset") preset = value;
    if (option == "--rows") rows = std::max(1, std::atoi(value));
    if (option == "--tokens") cols = std::max(1, std::atoi(value));
    if (option == "--threads") threads = std::max(1, std::atoi(value));
    if (option == "--steps") steps = std::max(1, std::atoi(value));
    if (option == "--precision") precisions = {value};
  }
};

/// Returns the config of an engine that trains on the batches of `w`.
inline nlohmann::json config_of(const Workload& w, const std::string& precision) {
  return {{"preset", w.preset},
          {"precision", precision},
          {"batch", {{"micro_batch", w.rows}, {"grad_accum_steps", 1}, {"sequence", w.cols}}},
          {"cpu", {{"threads", w.threads}}}};
}

inline golden::TokenBatch random_batch(const Workload& w, int32_t vocab, std::mt19937& random) {
  std::uniform_int_distribution<int32_t> token(0, vocab - 1);
  golden::TokenBatch batch{w.rows, w.cols, {}, {}, {}};
  for (int64_t i = 0; i < w.rows * w.cols; ++i) {
    batch.tokens.push_back(token(random));
    batch.targets.push_back(token(random));
  }
  return batch;
}

}  // namespace hawser::bench
