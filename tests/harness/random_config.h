// A random valid config of many ranks: every family of model, precision, mesh, stage, order of sums and
// optimizer. For promises that must hold for every config that trains.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::testing {

/// JSON, without data: batches are pushed. The same seed gives the same config. It has sizes that train in
/// milliseconds and, now and then, larger ones.
std::string random_config(uint64_t seed);

}  // namespace hawser::testing
