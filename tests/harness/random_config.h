// Random configs: draws a valid config of several ranks. It covers every family of model, every axis of the
// mesh, and every field of the sections on precision, parallelism, recompute, offload and optimizer;
// prove_random_test checks this. It serves tests of promises that must hold for every config that trains.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::testing {

/// Returns JSON, without data, because tests push batches. Equal seeds give equal configs. Most sizes train
/// in milliseconds; a few are larger.
std::string random_config(uint64_t seed);

}  // namespace hawser::testing
