// RowFile: a file with rows of text, from front to back: JSON Lines, a JSON array, Parquet, plain text. The
// file's contents say which it is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace hawser::text {

/// One row as it stands in its file.
struct RawRow {
  std::string text;
  bool is_json = true;  ///< else a piece of a text
  /// Of a text, which comes in pieces of whole lines: whether it begins and ends with this one.
  bool first = true, last = true;
  std::string where;   ///< for errors: "chat.jsonl:12"
  int64_t column = 1;  ///< where the row begins in its line
  int64_t offset = 0;  ///< and in its file, in bytes
};

/// For one thread.
class RowFile {
 public:
  virtual ~RowFile() = default;
  virtual std::optional<RawRow> next() = 0;
  virtual const char* form() const = 0;  ///< "JSON Lines", "JSON array", "Parquet", "text"
  virtual int64_t size() const = 0;      ///< bytes
  virtual int64_t done() const = 0;      ///< bytes of rows that next() gave, nearly
};

/// Throws kDataInvalid for a file that is empty or of another kind (a gzip file, a PDF, ...); what
/// InputFile::open throws. Parquet needs the text module.
std::unique_ptr<RowFile> open_rows(const std::string& path, const std::string& module_folder = "");

}  // namespace hawser::text
