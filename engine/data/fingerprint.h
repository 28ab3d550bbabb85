// What a checkpoint stores about its data, so that a run cannot resume on other rows unnoticed.
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

using Files = std::vector<const InputFile*>;

/// The files behind all parts, each once, in order.
Files files_of(const std::vector<Part>& train, const std::vector<Part>& validation);

/// Digests of share `share` of `shares` of what the files hold: so several ranks read each block once. Throws
/// as InputFile::read_at.
std::string digest_share(const Files& files, int64_t share, int64_t shares);

/// The fingerprint with what the files hold, from all shares in order: a digest of each file, the same
/// whatever the number of shares. Of more than 4 GiB in all, only every n-th MiB goes into it ("every").
std::string with_contents(const std::string& fingerprint, const Files& files,
                          const std::vector<std::string>& shares);

/// In what data differ, a line for each field; "" where they are the same. Files may have been moved and
/// renamed where both fingerprints say what they hold.
std::string data_difference(const std::string& theirs, const std::string& ours);

}  // namespace hawser::data
