// Raw source: reads raw token files, which hold only ids. Such a file cannot identify itself, so everything
// that could reveal a wrong file is checked: its size, and whether it starts with a header of another
// program.
#include <fmt/format.h>

#include <string_view>

#include "engine/data/data_error.h"
#include "engine/data/element_array.h"
#include "engine/data/token_source.h"

namespace hawser::data {
namespace {

/// Refuses llm.c's data files: 256 int32 (magic, version, number of tokens, zeros), then u16 or u32 ids.
void refuse_llmc(const InputFile& file) {
  constexpr int64_t kHeaderBytes = 256 * 4;
  int32_t header[3] = {};
  if (!file.contains(0, sizeof header)) return;
  file.read_at(0, header, sizeof header);
  const bool gpt2 = header[0] == 20240520, llama3 = header[0] == 20240801;
  if ((!gpt2 && !llama3) || header[1] < 0 || header[1] > 99) return;
  fail_data(
      file.path(), 0,
      fmt::format("starts with an llm.c header (magic {}, version {}, {} tokens), which is not token data; "
                  "cut off the first {} bytes (tail -c +{} IN > OUT) and read the rest as {}",
                  header[0], header[1], header[2], kHeaderBytes, kHeaderBytes + 1, gpt2 ? "u16" : "u32"));
}

void refuse_foreign_header(const InputFile& file) {
  struct Magic {
    std::string_view bytes;
    const char* what;
  };
  static constexpr Magic kMagics[] = {
      {{"MMIDIDX\0\0", 9},
       "a Megatron index, not raw token ids; use data.format megatron with the path without .idx"},
      {{"TNTIDX\0\0", 8},
       "an old fairseq or Megatron index, not raw token ids; convert the data to version 1 or to raw ids"},
      {{"\x93NUMPY", 6},
       "a NumPy file, not raw token ids; write the array's bytes alone (numpy.ndarray.tofile)"},
  };
  refuse_llmc(file);
  FileWindow start(file);
  for (const Magic& magic : kMagics) {
    if (start.at(0, static_cast<int64_t>(magic.bytes.size())).starts_with(magic.bytes)) {
      fail_data(file.path(), 0, fmt::format("is {}", magic.what));
    }
  }
}

class RawSource final : public TokenSource {
 public:
  RawSource(const std::string& path, TokenType type, int64_t separator)
      : file_(InputFile::open(path)), separator_(separator) {
    refuse_foreign_header(file_);
    const ElementType element = type == TokenType::kU16 ? ElementType::kU16 : ElementType::kU32;
    const int64_t bytes = element_bytes(element), size = file_.size();
    if (size % bytes != 0) {
      fail_data(
          path, size - size % bytes,
          fmt::format("{} bytes is not a multiple of {}, the size of a {} token id; the file is cut off, "
                      "or data.token_type is wrong",
                      size, bytes, element_name(element)));
    }
    tokens_ = {&file_, size / bytes, element};
  }

  int64_t size() const override { return tokens_.size; }
  void copy(int64_t first, int64_t count, int32_t* out) const override { tokens_.copy(first, count, out); }
  int64_t document_end(int64_t at, int64_t limit) const override {
    if (separator_ < 0) return limit;
    const int64_t found = tokens_.find(at, limit, separator_);
    return found < limit ? found + 1 : limit;
  }
  TokenLocation locate(int64_t index) const override {
    return {file_.path(), index * element_bytes(tokens_.type), index, tokens_.at(index)};
  }
  const std::string& name() const override { return file_.path(); }
  std::vector<const InputFile*> files() const override { return {&file_}; }

 private:
  InputFile file_;
  int64_t separator_;
  ElementArray tokens_;
};

}  // namespace

std::unique_ptr<TokenSource> open_raw_tokens(const std::string& path, TokenType type, int64_t separator) {
  return std::make_unique<RawSource>(path, type, separator);
}

}  // namespace hawser::data
