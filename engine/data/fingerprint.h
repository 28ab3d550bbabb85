// What a checkpoint remembers of its data, so that a resumed run cannot go on with other rows unnoticed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/data_config.h"
#include "engine/data/token_source.h"

namespace hawser::data {

/// A stretch of one source that rows are cut from.
struct Part {
  const TokenSource* source = nullptr;
  int64_t begin = 0, end = 0;  ///< tokens of the source
  int64_t samples = 0;
};

/// Canonical JSON (sorted keys, no spaces). Reads the first and last 64 KiB of each file.
std::string make_fingerprint(const DataConfig& config, uint64_t seed, int64_t cols,
                             const std::vector<Part>& train, const std::vector<Part>& validation);

}  // namespace hawser::data
