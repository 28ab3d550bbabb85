// Fingerprint: identifies the data in a checkpoint, so that a run cannot resume on other rows unnoticed.
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
  int64_t begin = 0, end = 0;  ///< token range of the source
  int64_t samples = 0;
};

/// Returns canonical JSON (sorted keys, no spaces). `tokenizer`: the digest of the tokenizer, if the data is
/// text that it encodes. Reads the first and last 64 KiB of each file.
std::string make_fingerprint(const DataConfig& config, const std::string& tokenizer, uint64_t seed,
                             int64_t cols, const std::vector<SourceRange>& train,
                             const std::vector<SourceRange>& validation, bool grouped);

using Files = std::vector<const InputFile*>;

/// Returns the files behind all parts, each once, in order.
Files files_of(const std::vector<SourceRange>& train, const std::vector<SourceRange>& validation);

/// Digests share `share` of `shares` of the files' contents, so that several ranks together read each block
/// once. Throws what InputFile::read_at throws.
std::string digest_share(const Files& files, int64_t share, int64_t shares);

/// Returns the fingerprint with the contents of the files, from all shares in order: a digest of each file,
/// which does not depend on the number of shares. If the files have more than 4 GiB in total, only every n-th
/// MiB is digested ("every").
std::string with_contents(const std::string& fingerprint, const Files& files,
                          const std::vector<std::string>& shares);

/// Returns the differences, one line per field; "" if there are none. File names are compared only if a
/// fingerprint lacks contents, so files may be moved or renamed.
std::string data_difference(const std::string& theirs, const std::string& ours);

}  // namespace hawser::data
