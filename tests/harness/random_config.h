// Random config: draws a valid config of many ranks. It covers every family of model, every axis of the mesh,
// and every field of the sections on precision, parallelism, recompute, offload and optimizer;
// prove_random_test checks this. It serves tests of promises that must hold for every config that trains.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::testing {

/// JSON, without data: batches are pushed. The same seed gives the same config. It has sizes that train in
/// milliseconds and, now and then, larger ones.
std::string random_config(uint64_t seed);

}  // namespace hawser::testing
