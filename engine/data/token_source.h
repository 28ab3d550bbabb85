// TokenSource: one stream of tokens with document boundaries, whatever file it comes from. One file per
// format implements it; dataset.cc makes rows of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/input_file.h"
#include "engine/data/data_config.h"
#include "engine/data/vocabulary.h"

namespace hawser::data {

/// Const use is thread-safe and, but for locate(), allocates nothing.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;  ///< tokens
  /// Tokens [first, first + count) into out; -1 where the file holds no possible id (negative or beyond
  /// int32). The caller keeps the range inside [0, size()).
  virtual void copy(int64_t first, int64_t count, int32_t* out) const = 0;
  /// One past the last token of the document that holds token `at`, or `limit` if that is further.
  /// Needs at < limit <= size().
  virtual int64_t document_end(int64_t at, int64_t limit) const = 0;
  /// Where token `index` stands and what the file holds there, for messages.
  struct Place {
    std::string file;
    int64_t offset = 0;  ///< bytes
    int64_t index = 0;   ///< tokens, in that file
    int64_t value = 0;   ///< as stored
  };
  virtual Place locate(int64_t index) const = 0;
  /// What to call it in messages: its path as configured.
  virtual const std::string& name() const = 0;
  /// The files behind it, in order; borrowed.
  virtual std::vector<const InputFile*> files() const = 0;
};

/// UTF-8 text; the file is one document. By bytes, any file will do; by characters, invalid UTF-8 and
/// characters outside the vocabulary are kDataInvalid with their offset, found here and not in the middle of
/// a run.
std::unique_ptr<TokenSource> open_text(const std::string& path, const Vocabulary& vocabulary);

/// Raw little-endian token ids. A document runs up to and including `separator` (-1: the file is one
/// document). Refuses files whose size is no multiple of the element and files that start with another
/// format's header.
std::unique_ptr<TokenSource> open_raw_tokens(const std::string& path, TokenType type, int64_t separator);

/// Megatron's indexed data, version 1: `prefix`.bin and `prefix`.idx (either ending may be given). A document
/// is an entry of the index's document list. The whole index is checked here, in one pass.
std::unique_ptr<TokenSource> open_megatron(const std::string& prefix);

/// The sources one after another as a single stream; a document never spans two of them.
std::unique_ptr<TokenSource> join_sources(std::vector<std::unique_ptr<TokenSource>> parts);

}  // namespace hawser::data
