// TokenSource: one stream of tokens with document boundaries, independent of the file format. Each format has
// an implementation in its own file; dataset.cc makes rows from it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/input_file.h"
#include "engine/data/data_config.h"
#include "engine/data/vocabulary.h"

namespace hawser::data {

/// Destination of a row of prepared data: arrays of `cols` values. The tokens are already filled in;
/// positions, kv_begin and weights may be null.
struct MarkedRow {
  const int32_t* tokens = nullptr;
  int32_t *targets = nullptr, *positions = nullptr, *kv_begin = nullptr;
  float* weights = nullptr;
  int64_t cols = 0;  ///< at most the row's length; the target of the last column is masked
};

/// Const use is thread-safe and allocates nothing, except locate().
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;  ///< tokens
  /// Copies tokens [first, first + count) to out. A token is -1 if the file holds no valid id there (negative
  /// or beyond int32). The range must be inside [0, size()).
  virtual void copy(int64_t first, int64_t count, int32_t* out) const = 0;
  /// Returns one past the last token of the document that holds token `at`, or `limit` if that is smaller.
  /// Requires at < limit <= size().
  virtual int64_t document_end(int64_t at, int64_t limit) const = 0;
  /// The position of a token and its stored value, for messages.
  struct TokenLocation {
    std::string file;
    int64_t offset = 0;  ///< bytes
    int64_t index = 0;   ///< token number in that file
    int64_t value = 0;   ///< as stored
  };
  virtual TokenLocation locate(int64_t index) const = 0;
  /// Returns the source's name in messages: the path from the config.
  virtual const std::string& name() const = 0;
  /// Returns the files of the source, in order; borrowed.
  virtual std::vector<const InputFile*> files() const = 0;

  // Prepared rows are used one by one; a stream of tokens is cut into windows.
  virtual int64_t row_length() const { return 0; }      ///< tokens of a prepared row; 0: a stream
  virtual bool has_documents() const { return false; }  ///< rows hold several documents, which must be masked
  virtual bool has_weights() const { return false; }    ///< some target has a weight other than 1
  virtual bool has_pairs() const { return false; }      ///< rows 2i and 2i + 1 belong together
  /// Fills the targets, positions, kv_begin and weights of the row that starts at token `first`.
  virtual void mark_row(int64_t /*first*/, const MarkedRow& /*row*/) const {}
};

/// Opens UTF-8 text; the file is one document. By bytes, any file is accepted. By characters and with a
/// tokenizer, invalid UTF-8 is kDataInvalid with its offset; by characters, so is a character outside the
/// vocabulary. Both are found here instead of in the middle of a run.
std::unique_ptr<TokenSource> open_text(const std::string& path, const Vocabulary& vocabulary);

/// Opens raw little-endian token ids. A document extends up to and including `separator` (-1: the file is one
/// document). Refuses files whose size is not a multiple of the element, and files that start with another
/// format's header.
std::unique_ptr<TokenSource> open_raw_tokens(const std::string& path, TokenType type, int64_t separator);

/// Opens Megatron's indexed data, version 1: `prefix`.bin and `prefix`.idx (either ending may be given). A
/// document is an entry of the index's document list. The complete index is checked here, in one pass.
std::unique_ptr<TokenSource> open_megatron(const std::string& prefix);

/// Opens rows that `hawser prepare` made (prepared_folder.h). Up to 64 Mi tokens are compared with their
/// digests here.
std::unique_ptr<TokenSource> open_prepared(const std::string& folder);

/// Concatenates sources to one stream. No document spans two sources.
std::unique_ptr<TokenSource> join_sources(std::vector<std::unique_ptr<TokenSource>> parts);

}  // namespace hawser::data
