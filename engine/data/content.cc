// Content check: recognises files by their first bytes: a format's signature, lines of JSON objects, or bytes
// that are not text.
#include "engine/data/content.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/input_file.h"
#include "engine/base/json.h"
#include "engine/base/utf8.h"
#include "engine/data/data_error.h"

namespace hawser::data {
namespace {

using namespace std::string_view_literals;

constexpr int64_t kMostRead = int64_t{1} << 20;  // enough for the first lines of most JSON Lines files
constexpr size_t kBytesJudged = size_t{64} << 10;
constexpr int kLinesJudged = 3;
constexpr double kMostNul = 0.01, kMostInvalid = 0.3;  // maximum shares; text in Latin-1 stays below both

constexpr const char* kDecompress = "decompress it, and give the decompressed text file";
constexpr const char* kExtract = "extract the text files, and give those";
constexpr const char* kText = "write the text of its records to a text file, and give that";
constexpr const char* kUtf8 = "convert it to UTF-8, such as with iconv -f UTF-16 -t UTF-8";
constexpr const char* kWeights = "set init.from to the model's folder, and give training text here";
constexpr const char* kConvert = "convert it to UTF-8; or, if it holds token ids, set data.format to tokens";

/// The bytes that files of a format have at a given offset.
struct Signature {
  size_t offset;
  std::string_view bytes;
  const char* name;
  const char* advice;
};

constexpr Signature kSignatures[] = {
    {0, "\x1f\x8b"sv, "a gzip file", kDecompress},
    {0, "\x28\xb5\x2f\xfd"sv, "a Zstandard file", kDecompress},
    {0, "\xfd\x37zXZ\0"sv, "an xz file", kDecompress},
    {0, "\x04\x22\x4d\x18"sv, "an LZ4 file", kDecompress},
    {4, "\x31\x41\x59\x26\x53\x59"sv, "a bzip2 file", kDecompress},
    {0, "PK\x03\x04"sv, "a ZIP file (which .docx, .xlsx, .epub, .npz and .pt are too)", kExtract},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7-Zip file", kExtract},
    {257, "ustar"sv, "a tar file", kExtract},
    {0, "PAR1"sv, "a Parquet file", kText},
    {0, "ARROW1\0"sv, "an Arrow file", kText},
    {0, "Obj\x01"sv, "an Avro file", kText},
    {0, "SQLite format 3\0"sv, "an SQLite database", kText},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file", kText},
    {0, "%PDF-"sv, "a PDF file", "extract its text, such as with pdftotext, and give that"},
    {0, "{\\rtf"sv, "an RTF file", "save it as plain text, and give that"},
    {0, "\xff\xfe"sv, "UTF-16 text", kUtf8},
    {0, "\xfe\xff"sv, "UTF-16 text", kUtf8},
    {0, "GGUF"sv, "a GGUF model", kWeights},
    {0, "\x93NUMPY"sv, "a NumPy array", "write its token ids with tofile, and set data.format to tokens"},
    {0, "MMIDIDX\0"sv, "a Megatron index", "set data.format to megatron, and give the path without .idx"},
};

bool begins_as(std::string_view head, const Signature& s) {
  return head.size() >= s.offset + s.bytes.size() && head.substr(s.offset, s.bytes.size()) == s.bytes;
}

/// True if the file starts with a header length of 8 bytes and a JSON object.
bool is_safetensors(std::string_view head, int64_t file_size) {
  if (head.size() < 10 || head.substr(8, 2) != "{\"") return false;
  uint64_t header = 0;
  for (size_t i = 8; i-- > 0;) header = header << 8 | static_cast<uint8_t>(head[i]);
  return header <= static_cast<uint64_t>(file_size) - 8;
}

/// True if the first non-empty lines that are complete in `head` are JSON objects.
bool is_json_lines(std::string_view head, bool whole_file) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  int objects = 0;
  while (!head.empty() && objects < kLinesJudged) {
    const size_t end = head.find('\n');
    if (end == std::string_view::npos && !whole_file) break;
    std::string_view line = head.substr(0, end);
    head.remove_prefix(end == std::string_view::npos ? head.size() : end + 1);
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    if (line[first] != '{' || json_error_at(line) != 0) return false;
    ++objects;
  }
  return objects > 0;
}

/// True if the part in `head` can be the beginning of a JSON array.
bool is_json_array(std::string_view head, bool whole_file) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '[') return false;
  const bool cut = !whole_file || head.size() > kBytesJudged;
  head = head.substr(0, kBytesJudged);
  const size_t error = json_error_at(head);
  return error == 0 || (cut && error >= head.size());
}

/// True if NULs or invalid UTF-8 bytes are more frequent than in text of any encoding.
bool is_binary(std::string_view head, bool whole_file) {
  std::string_view judged = head.substr(0, kBytesJudged);
  size_t nul = 0, invalid = 0;
  for (size_t at = 0; at < judged.size();) {
    nul += judged[at] == '\0' ? 1 : 0;
    if (next_code_point(judged.data(), judged.size(), &at) != kInvalidCodePoint) continue;
    const bool cut = judged.size() - at < kMostUtf8Bytes && !(whole_file && judged.size() == head.size());
    if (cut) break;
    ++at;
    ++invalid;
  }
  const auto size = static_cast<double>(judged.size());
  return static_cast<double>(nul) > kMostNul * size || static_cast<double>(invalid) > kMostInvalid * size;
}

[[noreturn]] void refuse(const std::string& path, const char* what, const char* advice) {
  fail_data(path, -1,
            fmt::format("is {}, not plain text; {}. To train on its bytes as they are, set data.as_is to "
                        "true",
                        what, advice));
}

}  // namespace

void check_is_text(const std::string& path) {
  const InputFile file = InputFile::open(path);
  std::string head(static_cast<size_t>(std::min(file.size(), kMostRead)), '\0');
  file.read_at(0, head.data(), static_cast<int64_t>(head.size()));
  const bool whole_file = file.size() <= kMostRead;
  for (const Signature& signature : kSignatures)
    if (begins_as(head, signature)) refuse(path, signature.name, signature.advice);
  if (is_safetensors(head, file.size())) refuse(path, "a safetensors file", kWeights);
  if (is_json_lines(head, whole_file)) refuse(path, "JSON Lines, one object per line", kText);
  if (is_json_array(head, whole_file)) refuse(path, "a JSON array", kText);
  if (is_binary(head, whole_file)) refuse(path, "binary, or not in UTF-8", kConvert);
}

}  // namespace hawser::data
