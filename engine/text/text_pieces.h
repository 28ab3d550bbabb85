// TextPieces: reads a text file from front to back, one piece at a time, so that a tokenizer never receives
// gigabytes at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/input_file.h"

namespace hawser::text {

/// A piece ends at a line end between two visible ASCII characters, because no pre-tokenizer of the common
/// families joins text across such a line end. Not thread-safe; borrows the file.
class TextPieces {
 public:
  /// Pieces have about `usual` bytes. Without a suitable line end they grow up to `most`, and are then cut
  /// between characters.
  TextPieces(const InputFile& file, int64_t usual, int64_t most) : file_(file), usual_(usual), most_(most) {}

  /// Returns the next piece, valid until the next call; nothing at the end. Throws kDataInvalid with the
  /// offset of a byte that is not UTF-8, and what InputFile::read_at throws.
  std::optional<std::string_view> next();

 private:
  void check_utf8(size_t bytes) const;

  const InputFile& file_;
  const int64_t usual_, most_;
  int64_t at_ = 0;
  std::string piece_;
};

}  // namespace hawser::text
