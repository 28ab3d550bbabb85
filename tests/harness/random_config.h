// Random configs: draws a valid config of several ranks. It covers every family of model, every axis of the
// mesh, and every field of the sections on precision, parallelism, recompute, offload and optimizer;
// prove_random_test checks this. It serves tests of promises that must hold for every config that trains.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hawser::testing {

/// Returns JSON, without data, because tests push batches. Equal seeds give equal configs. Most sizes train
/// in milliseconds; a few are larger.
std::string random_config(uint64_t seed);

/// Replaces these kinds by adamw in the config's optimizer and its rules: GPUs refuse muon and adamw8, and
/// /offload/optimizer refuses muon.
void replace_optimizers(nlohmann::json* config, std::initializer_list<std::string_view> kinds);

/// Returns consecutive seeds and prints them: HAWSER_CONFIGS of them, or else `configs`, from HAWSER_SEED on,
/// or else from a number that follows from the day. HAWSER_WITH="offload,quantized" leaves out the seeds
/// whose configs contain none of these words.
std::vector<uint64_t> random_seeds(uint64_t configs);

}  // namespace hawser::testing
