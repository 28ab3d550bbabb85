// ParquetRows: reads the rows of a Parquet file as JSON objects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/text/text_module.h"

namespace hawser::text {

/// Not thread-safe: use it on one thread at a time.
class ParquetRows {
 public:
  /// Throws kDataInvalid if the file cannot be read as Parquet.
  explicit ParquetRows(std::string path, const std::string& module_folder = "");
  ~ParquetRows();
  ParquetRows(const ParquetRows&) = delete;
  ParquetRows& operator=(const ParquetRows&) = delete;

  int64_t total() const { return total_; }
  /// Returns the next row as the text of a JSON object; nothing at the end. Throws kDataInvalid for damaged
  /// pages.
  std::optional<std::string> next();

 private:
  std::string path_;
  const TextModule* module_;
  TextRows* rows_ = nullptr;
  int64_t total_ = 0;
};

}  // namespace hawser::text
