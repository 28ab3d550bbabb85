// Vocabulary: text to tokens and back, for byte and character models. Others work on token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/data_config.h"

namespace hawser::data {

class Vocabulary {
 public:
  Vocabulary() = default;  ///< none: encode and decode throw kFailedPrecondition
  static Vocabulary bytes();
  /// The distinct code points of the UTF-8 files, ascending. Throws kDataInvalid for invalid UTF-8, with the offset.
  static Vocabulary characters_of(const std::vector<std::string>& paths);
  static Vocabulary from_json(std::string_view json);  ///< as to_json wrote it
  std::string to_json() const;

  VocabularyKind kind() const { return kind_; }
  int64_t size() const;  ///< 0 for none
  /// Throws kDataInvalid for a character outside the vocabulary (character, offset).
  std::vector<int32_t> encode(std::string_view text) const;
  /// Bytes of the tokens. A byte model may give invalid UTF-8. Throws kInvalidArgument for an id out of range.
  std::string decode(const int32_t* tokens, int64_t n) const;
  /// Token of the character at text[*at], and steps over it; -1 where it has none or is invalid UTF-8.
  int32_t next(std::string_view text, size_t* at) const;

 private:
  VocabularyKind kind_ = VocabularyKind::kNone;
  std::vector<uint32_t> code_points_;  // ascending, for characters
};

}  // namespace hawser::data
