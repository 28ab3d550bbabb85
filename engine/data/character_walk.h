// Character walk: visits all characters of a text file, front to back.
#pragma once

#include "engine/base/input_file.h"
#include "engine/base/utf8.h"
#include "engine/data/data_error.h"

namespace hawser::data {

/// Calls take(rest, &step, at) for each character. The character is at rest[step], byte `at` of the file;
/// `take` advances step past it and returns true. If it returns false, with `step` unchanged, the bytes are
/// not UTF-8 or not in `vocabulary`, and this throws kDataInvalid. Also throws what read_at throws.
template <class Take>
void each_character(const InputFile& file, const Vocabulary& vocabulary, const Take& take) {
  FileWindow window(file);
  for (int64_t at = 0; at < file.size();) {
    const std::string_view rest = window.at(at, kMostUtf8Bytes);
    constexpr size_t kMost = kMostUtf8Bytes;
    // Characters that begin in these bytes are complete. Fewer than kMost bytes remain only at the end of the
    // file.
    const size_t whole = rest.size() < kMost ? rest.size() : rest.size() - (kMost - 1);
    size_t step = 0;
    while (step < whole) {
      const int64_t offset = at + static_cast<int64_t>(step);
      if (!take(rest, &step, offset)) fail_character(file.path(), offset, rest.substr(step), vocabulary);
    }
    at += static_cast<int64_t>(step);
  }
}

}  // namespace hawser::data
