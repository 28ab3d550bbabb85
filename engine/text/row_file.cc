#include "engine/text/row_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/text/parquet_rows.h"

namespace hawser::text {
namespace {

constexpr int64_t kBlock = int64_t{1} << 18;
constexpr int64_t kMostRow = int64_t{64} << 20;   // maximum bytes of a row of JSON
constexpr int64_t kRowPiece = int64_t{16} << 10;  // minimum bytes of a piece of text
constexpr int64_t kMostPiece = int64_t{1} << 20;

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Reads the lines of a file.
class Lines {
 public:
  explicit Lines(const InputFile& file) : file_(file) { skip_byte_order_mark(); }

  struct Line {
    std::string text;  ///< without its line end
    int64_t number = 0, offset = 0;
    bool ended = false;  ///< the line ends with a newline
  };
  /// Returns nothing at the end of the file. A line of more than `most` bytes is returned in parts that end
  /// between characters.
  std::optional<Line> next(int64_t most) {
    Line line;
    line.number = number_;
    line.offset = begin_ + static_cast<int64_t>(at_);
    for (;;) {
      const size_t end = block_.find('\n', at_);
      const bool found = end != std::string::npos;
      line.text.append(block_, at_, found ? end - at_ : std::string::npos);
      at_ = found ? end + 1 : block_.size();
      line.ended = found;
      if (found || static_cast<int64_t>(line.text.size()) > most || !load()) break;
    }
    if (line.text.empty() && !line.ended) return std::nullopt;
    if (line.ended) ++number_;
    return line;
  }
  int64_t done() const { return begin_ + static_cast<int64_t>(at_); }

 private:
  bool load() {
    begin_ += static_cast<int64_t>(block_.size());
    at_ = 0;
    block_.resize(static_cast<size_t>(std::min(kBlock, file_.size() - begin_)));
    if (block_.empty()) return false;
    file_.read_at(begin_, block_.data(), static_cast<int64_t>(block_.size()));
    return true;
  }
  void skip_byte_order_mark() {
    if (load() && block_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  const InputFile& file_;
  std::string block_;
  int64_t begin_ = 0, number_ = 1;
  size_t at_ = 0;
};

[[noreturn]] void fail_long(const std::string& where) {
  fail(Code::kDataInvalid, "{}: the row has more than {} MiB; split it, or give the text as a text file",
       where, kMostRow >> 20);
}

class JsonLines final : public RowFile {
 public:
  explicit JsonLines(InputFile file) : file_(std::move(file)), lines_(file_) {}

  std::optional<RawRow> next() override {
    while (auto line = lines_.next(kMostRow)) {
      std::string where = fmt::format("{}:{}", file_name(file_.path()), line->number);
      if (static_cast<int64_t>(line->text.size()) > kMostRow) fail_long(where);
      if (line->text.find_first_not_of(" \t\r") == std::string::npos) continue;
      return RawRow{std::move(line->text), true, true, true, std::move(where), 1, line->offset};
    }
    return std::nullopt;
  }
  const char* form() const override { return "JSON Lines"; }
  int64_t size() const override { return file_.size(); }
  int64_t done() const override { return lines_.done(); }

 private:
  InputFile file_;
  Lines lines_;
};

/// Reads the elements of an array. Brackets determine the end of each element; its JSON is parsed later.
class JsonArray final : public RowFile {
 public:
  explicit JsonArray(InputFile file) : file_(std::move(file)), window_(file_) {
    skip_space();
    ++at_, ++column_;  // skips the bracket
  }

  std::optional<RawRow> next() override {
    skip_space();
    if (given_ && at_ < file_.size() && peek() == ',') {
      step();
      skip_space();
    }
    const std::string where = fmt::format("{}:{}", file_name(file_.path()), line_);
    if (at_ >= file_.size())
      fail(Code::kDataInvalid, "{}:{}: the file ends within its array; expected ]", where, column_);
    if (peek() == ']') return std::nullopt;
    if (peek() != '{')
      fail(Code::kDataInvalid, "{}:{}: expected {} of the array, which is an object in braces", where,
           column_, given_ ? "a comma or the next row" : "the first row");
    RawRow row{"", true, true, true, where, column_, at_};
    take_object(&row);
    given_ = true;
    return row;
  }
  const char* form() const override { return "JSON array"; }
  int64_t size() const override { return file_.size(); }
  int64_t done() const override { return at_; }

 private:
  char peek() { return window_.at(at_, 1)[0]; }
  void step() {
    column_ = peek() == '\n' ? 1 : column_ + 1;
    line_ += peek() == '\n' ? 1 : 0;
    ++at_;
  }
  void skip_space() {
    if (at_ == 0 && window_.at(0, 3).starts_with("\xef\xbb\xbf")) at_ = 3;
    while (at_ < file_.size() && std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) step();
  }
  void take_object(RawRow* row) {
    int64_t depth = 0;
    bool in_text = false, escaped = false;
    for (; at_ < file_.size(); step()) {
      const char c = peek();
      row->text.push_back(c);
      if (static_cast<int64_t>(row->text.size()) > kMostRow) fail_long(row->where);
      if (escaped) {
        escaped = false;
      } else if (in_text) {
        escaped = c == '\\';
        in_text = c != '"';
      } else if (c == '"') {
        in_text = true;
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        step();
        return;
      }
    }
  }

  InputFile file_;
  FileWindow window_;
  int64_t at_ = 0, line_ = 1, column_ = 1;
  bool given_ = false;
};

/// Reads a text in pieces of complete lines.
class TextFile final : public RowFile {
 public:
  explicit TextFile(InputFile file) : file_(std::move(file)), lines_(file_) {}

  std::optional<RawRow> next() override {
    RawRow row{"", false, first_, true, "", 1, lines_.done()};
    int64_t number = 0;
    while (static_cast<int64_t>(row.text.size()) < kRowPiece) {
      const auto line = lines_.next(kMostPiece);
      if (!line) break;
      if (number == 0) number = line->number;
      row.text += line->text;
      if (line->ended) row.text.push_back('\n');
    }
    if (row.text.empty()) return std::nullopt;
    row.where = fmt::format("{}:{}", file_name(file_.path()), number);
    row.last = lines_.done() >= file_.size();
    first_ = false;
    return row;
  }
  const char* form() const override { return "text"; }
  int64_t size() const override { return file_.size(); }
  int64_t done() const override { return lines_.done(); }

 private:
  InputFile file_;
  Lines lines_;
  bool first_ = true;
};

class ParquetFile final : public RowFile {
 public:
  ParquetFile(const InputFile& file, const std::string& module_folder)
      : name_(file_name(file.path())), size_(file.size()), rows_(file.path(), module_folder) {}

  std::optional<RawRow> next() override {
    std::optional<std::string> json = rows_.next();
    if (!json) return std::nullopt;
    std::string where = fmt::format("{}, row {}", name_, ++number_);
    if (static_cast<int64_t>(json->size()) > kMostRow) fail_long(where);
    return RawRow{std::move(*json), true, true, true, std::move(where), 1, 0};
  }
  const char* form() const override { return "Parquet"; }
  int64_t size() const override { return size_; }
  int64_t done() const override {
    return rows_.total() == 0
               ? size_
               : static_cast<int64_t>(static_cast<double>(size_) * static_cast<double>(number_) /
                                      static_cast<double>(rows_.total()));
  }

 private:
  const std::string name_;
  const int64_t size_;
  ParquetRows rows_;
  int64_t number_ = 0;
};

/// Returns the file's first bytes, without spaces and a byte order mark at their beginning.
std::string head_of(const InputFile& file) {
  std::string head(static_cast<size_t>(std::min<int64_t>(file.size(), 4096)), '\0');
  file.read_at(0, head.data(), static_cast<int64_t>(head.size()));
  if (head.starts_with("\xef\xbb\xbf")) head.erase(0, 3);
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : head.substr(first);
}

bool has_json_name(const std::string& path) {
  return path.ends_with(".jsonl") || path.ends_with(".ndjson") || path.ends_with(".json");
}

}  // namespace

std::unique_ptr<RowFile> open_rows(const std::string& path, const std::string& module_folder) {
  InputFile file = InputFile::open(path);
  const std::string head = head_of(file);
  if (head.empty()) fail(Code::kDataInvalid, "{} is empty; give a file with rows", path);
  if (head.starts_with("\x1f\x8b"))
    fail(Code::kDataInvalid, "{} is compressed (gzip); decompress it first: gunzip -k {}", path, path);
  if (head.starts_with("PAR1")) return std::make_unique<ParquetFile>(file, module_folder);
  if (head.front() == '[' && has_json_name(path)) return std::make_unique<JsonArray>(std::move(file));
  if (head.front() == '{' || has_json_name(path)) return std::make_unique<JsonLines>(std::move(file));
  return std::make_unique<TextFile>(std::move(file));
}

}  // namespace hawser::text
