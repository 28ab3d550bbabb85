// Vocabulary: converts text to tokens and back, by bytes, by characters, or with a tokenizer. Models without
// a vocabulary work on token ids.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/input_file.h"
#include "engine/data/data_config.h"

namespace hawser::data {

/// The functions of a tokenizer that a vocabulary needs. Const functions may be called concurrently.
class TextTokens {
 public:
  virtual ~TextTokens() = default;
  virtual int64_t size() const = 0;
  /// Encodes a complete text, with the special tokens that begin or end a text.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// Encodes a complete file in the same way.
  virtual std::vector<int32_t> encode(const InputFile& file) const = 0;
  /// Decodes without special tokens.
  virtual std::string decode(const int32_t* tokens, int64_t n) const = 0;
  /// Identifies the tokenizer.
  virtual const std::string& digest() const = 0;
};

/// A copyable value; const use is thread-safe. The token of a byte is its value; the token of a character is
/// its rank by code point among the characters of the vocabulary.
class Vocabulary {
 public:
  Vocabulary() = default;  ///< none: encode and decode throw kFailedPrecondition
  static Vocabulary bytes();
  /// Returns a vocabulary of the distinct code points of the UTF-8 files, ascending. Throws kDataInvalid for
  /// invalid UTF-8, with the offset, and if there are no characters; also throws what InputFile::open throws.
  static Vocabulary characters_of(const std::vector<std::string>& paths);
  static Vocabulary of_tokenizer(std::shared_ptr<const TextTokens> tokens);
  /// Parses the output of to_json; "{}" gives no vocabulary. Throws kDataInvalid for anything else.
  static Vocabulary from_json(std::string_view json);
  /// Returns {"kind": "bytes"}, {"kind": "characters", "characters": "\n !..."} or {}. A tokenizer also gives
  /// {}, because its files are stored separately.
  std::string to_json() const;

  VocabularyKind kind() const { return kind_; }
  const TextTokens* tokenizer() const { return tokenizer_.get(); }  ///< null for the other kinds
  int64_t size() const;                                             ///< tokens; 0 for none
  /// Throws kDataInvalid for a character outside the vocabulary (character, offset) and for invalid UTF-8. A
  /// tokenizer adds the special tokens of a text; decode omits them.
  std::vector<int32_t> encode(std::string_view text) const;
  /// Returns the bytes of the tokens. A byte model may give invalid UTF-8. Throws kInvalidArgument for an id
  /// out of range.
  std::string decode(const int32_t* tokens, int64_t n) const;
  /// Returns the token of the character at text[*at] and advances *at. Returns -1, with *at unchanged, if the
  /// character has no token or is invalid UTF-8. Requires *at < text.size() and no tokenizer. Allocates
  /// nothing.
  int32_t next(std::string_view text, size_t* at) const;

  bool operator==(const Vocabulary& other) const {
    return kind_ == other.kind_ && code_points_ == other.code_points_ &&
           (tokenizer_ == other.tokenizer_ ||
            (tokenizer_ && other.tokenizer_ && tokenizer_->digest() == other.tokenizer_->digest()));
  }

 private:
  explicit Vocabulary(std::vector<uint32_t> code_points);  // ascending and distinct

  VocabularyKind kind_ = VocabularyKind::kNone;
  std::vector<uint32_t> code_points_;  // ascending, for characters
  std::shared_ptr<const TextTokens> tokenizer_;
  std::array<int32_t, 128> ascii_ = {};  // token of each ASCII character or -1: most text is ASCII
};

}  // namespace hawser::data
