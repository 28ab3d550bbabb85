// RampRun: a trainer on pushed rows that depend only on their position in the data, so that runs whose steps
// have other sizes train on the same rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/run/trainer.h"

namespace hawser::testing {

/// The numbers of micro-batches of a rank that the steps of a ramp have, one size after the other.
using RampSizes = std::vector<int64_t>;

/// Returns the config with so many micro-batches in every step.
nlohmann::json with_micro_batches(nlohmann::json config, int64_t micro_batches);
/// Returns the config with a ramp of these sizes, of which each lasts for two steps. Each begins inside the
/// last step of the size before.
nlohmann::json with_ramp(nlohmann::json config, const RampSizes& sizes);
/// Draws `count` sizes, not all equal, that the config allows; none if 40 draws find none.
std::optional<RampSizes> draw_sizes(const nlohmann::json& config, size_t count, uint64_t seed);

class RampRun {
 public:
  explicit RampRun(const nlohmann::json& config);

  struct Step {
    int64_t rows = 0, samples = 0, tokens = 0;
    double loss = 0, grad_norm = 0;
    std::string gradients;  ///< a hash
    std::string loads;      ///< what routers counted, and the rewards of pairs
    bool operator==(const Step&) const = default;
  };
  Step step();
  std::vector<Step> steps(int count);
  /// Returns a hash of each tensor: weights and all states.
  std::map<std::string, uint64_t> tensors() const;
  train::Trainer& trainer() { return *trainer_; }

 private:
  std::atomic<bool> cancel_{false};
  std::unique_ptr<train::Trainer> trainer_;
};

std::ostream& operator<<(std::ostream& out, const RampRun::Step& step);

}  // namespace hawser::testing
