// RowFile: reads a file with rows of text from front to back: JSON Lines, a JSON array, Parquet, plain text.
// The format is detected from the contents.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace hawser::text {

/// One row as stored in its file.
struct RawRow {
  std::string text;
  bool is_json = true;  ///< false: a piece of plain text
  /// Plain text is read in pieces of complete lines: true if the text begins or ends with this piece.
  bool first = true, last = true;
  std::string where;   ///< for errors: "chat.jsonl:12"
  int64_t column = 1;  ///< column in its line at which the row begins
  int64_t offset = 0;  ///< byte offset of the row in its file
};

/// Not thread-safe: use it on one thread.
class RowFile {
 public:
  virtual ~RowFile() = default;
  virtual std::optional<RawRow> next() = 0;
  virtual const char* form() const = 0;  ///< "JSON Lines", "JSON array", "Parquet", "text"
  virtual int64_t size() const = 0;      ///< bytes
  virtual int64_t done() const = 0;      ///< approximate bytes of the rows that next() returned
};

/// Throws kDataInvalid for a file that is empty or of another format (a gzip file, a PDF, ...), and what
/// InputFile::open throws. Parquet needs the text module.
std::unique_ptr<RowFile> open_rows(const std::string& path, const std::string& module_folder = "");

}  // namespace hawser::text
