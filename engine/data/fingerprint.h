// Identifies the data in a checkpoint, so that a run cannot resume on other rows unnoticed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/data/data_config.h"
#include "engine/data/token_source.h"

namespace hawser::data {

/// A range of one source from which rows are made.
struct SourceRange {
  const TokenSource* source = nullptr;
  int64_t begin = 0, end = 0;  ///< tokens of the source
  int64_t samples = 0;
};

/// Canonical JSON (sorted keys, no spaces). tokenizer: its digest, of text that one makes tokens of. Reads
/// the first and last 64 KiB of each file.
std::string make_fingerprint(const DataConfig& config, const std::string& tokenizer, uint64_t seed,
                             int64_t cols, const std::vector<SourceRange>& train,
                             const std::vector<SourceRange>& validation);

using Files = std::vector<const InputFile*>;

/// The files behind all parts, each once, in order.
Files files_of(const std::vector<SourceRange>& train, const std::vector<SourceRange>& validation);

/// Digests share `share` of `shares` of the files' contents, so that several ranks together read each block
/// once. Throws what InputFile::read_at throws.
std::string digest_share(const Files& files, int64_t share, int64_t shares);

/// The fingerprint with the contents of the files, from all shares in order: a digest of each file, the same
/// for any number of shares. If the files have more than 4 GiB in all, only every n-th MiB is digested
/// ("every").
std::string with_contents(const std::string& fingerprint, const Files& files,
                          const std::vector<std::string>& shares);

/// The differences, a line for each field; "" if there are none. Files may have been moved or renamed if both
/// fingerprints include contents.
std::string data_difference(const std::string& theirs, const std::string& ours);

}  // namespace hawser::data
