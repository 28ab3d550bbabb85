// A walk over all characters of a text file, from front to back.
#pragma once

#include "engine/base/input_file.h"
#include "engine/base/utf8.h"
#include "engine/data/data_error.h"

namespace hawser::data {

/// Calls take(rest, &step, at) for each character: it stands at rest[step], byte `at` of the file, and `take`
/// steps over it and returns true. False, with `step` unchanged: it is no UTF-8 or not in `vocabulary`;
/// throws kDataInvalid then, and what read_at throws.
template <class Take>
void each_character(const InputFile& file, const Vocabulary& vocabulary, const Take& take) {
  FileWindow window(file);
  for (int64_t at = 0; at < file.size();) {
    const std::string_view rest = window.at(at, kMostUtf8Bytes);
    constexpr size_t kMost = kMostUtf8Bytes;
    // Characters that begin in these bytes are whole; fewer than kMost are there only at the file's end.
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
