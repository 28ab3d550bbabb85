// Content check: verifies that a file given as text really is text.
#pragma once

#include <string>

namespace hawser::data {

/// Throws kDataInvalid, with advice, unless the file at `path` can be plain text. A file would train without
/// an error and give a useless model if it begins like another format (JSON Lines, gzip, Parquet,
/// safetensors, PDF, ...) or if most of its first bytes are not UTF-8. Throws what InputFile::open throws.
void check_is_text(const std::string& path);

}  // namespace hawser::data
