// Runs two engines on the same random tokens, a step of each in turn, so that a busy machine slows both.
#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/bench/median.h"
#include "tests/bench/workload.h"

namespace hawser::bench {

/// The information on both engines after their steps, as hws_engine_info reports it.
struct Sides {
  nlohmann::json info[2];
};

/// Prints, without a newline, the median step with config `plain`, that with config `changed`, and the median
/// of the ratios of neighbouring steps. `change` adds to a batch the inputs that only `changed` reads; ids
/// must be below `vocab`.
inline Sides steps_in_turn(
    const Workload& w, const nlohmann::json& plain, const nlohmann::json& changed,
    const std::function<void(golden::TokenBatch*, int32_t vocab, std::mt19937*)>& change) {
  constexpr int kWarmUp = 2;
  golden::EngineSession first(plain.dump()), second(changed.dump());
  golden::EngineSession* const sides[] = {&first, &second};
  std::mt19937 random(1);
  const auto vocab = nlohmann::json::parse(first.info()).at("model").at("vocab_size").get<int32_t>();
  std::vector<double> seconds[2], ratios;
  for (int step = 0; step < kWarmUp + w.steps; ++step) {
    const golden::TokenBatch batch = random_batch(w, vocab, random);
    golden::TokenBatch with_change = batch;
    change(&with_change, vocab, &random);
    double took[2] = {};
    for (const int turn : {0, 1}) {
      const int side = (turn + step) % 2;
      took[side] = sides[side]->train_step(side == 0 ? batch : with_change).seconds;
    }
    if (step < kWarmUp) continue;
    for (const int side : {0, 1}) seconds[side].push_back(took[side]);
    ratios.push_back(took[1] / took[0]);
  }
  std::printf("%s, %lld x %lld tokens, %s, %d threads: %.0f ms, %.0f ms, ratio %.3f", w.preset.c_str(),
              static_cast<long long>(w.rows), static_cast<long long>(w.cols),
              plain.at("precision").get<std::string>().c_str(), w.threads, 1e3 * median(seconds[0]),
              1e3 * median(seconds[1]), median(ratios));
  return {{nlohmann::json::parse(first.info()), nlohmann::json::parse(second.info())}};
}

}  // namespace hawser::bench
