// Ramp rules: checks of /batch/ramp. Every size must satisfy all rules for a config whose steps all have that
// size.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/config/batch_config.h"
#include "engine/config/effective.h"
#include "engine/config/value.h"

namespace hawser::config {

/// Returns the entries of /batch/ramp that have all values.
std::vector<RampSize> ramp_of(const Effective& c);
/// Returns the greatest common divisor of all sizes; the global batch if there is no ramp.
int64_t common_rows(const Effective& c);
/// Derives the global batch of a ramp: the largest, unless one is given that the ramp does not override.
Value largest_of_ramp(const Effective& c);

/// Checks the entries themselves, and the global batch against them.
void check_ramp(const Effective& c, std::vector<Problem>* problems);
/// A config in which all steps have one size of the ramp.
struct OneSize {
  size_t entry;  ///< index in the ramp
  int64_t rows;
  Effective config;
};
/// Returns the configs of all sizes except the largest. `raw`: the config from which `c` was made.
std::vector<OneSize> sizes_of_ramp(const Value& raw, const Effective& c);
/// Returns the problem of one size as a problem of the ramp.
Problem problem_of_size(const OneSize& size, const Problem& problem);

}  // namespace hawser::config
