// What a file that is said to be text really holds.
#pragma once

#include <string>

namespace hawser::data {

/// Throws kDataInvalid, with what to do, unless the file at `path` can be plain text: one that begins as
/// another format does (JSON Lines, gzip, Parquet, safetensors, PDF, ...), or whose first bytes are mostly
/// not UTF-8, trains without an error into a model of nonsense. Throws as InputFile::open.
void check_is_text(const std::string& path);

}  // namespace hawser::data
