// Text source: reads text files. With a tokenizer, all tokens are computed when the file is opened and stay
// in memory. By bytes, token i is byte i. By characters, token i is character i, which is at byte i only in
// ASCII. For other text a sparse index stores the byte offset of every 1024th character, and a read steps
// from the nearest entry.
#include <algorithm>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/utf8.h"
#include "engine/data/character_walk.h"
#include "engine/data/data_error.h"
#include "engine/data/element_array.h"
#include "engine/data/token_source.h"

namespace hawser::data {
namespace {

class ByteSource final : public TokenSource {
 public:
  explicit ByteSource(const std::string& path)
      : file_(InputFile::open(path)), bytes_{&file_, file_.size(), ElementType::kU8} {}

  int64_t size() const override { return bytes_.size; }
  void copy(int64_t first, int64_t count, int32_t* out) const override { bytes_.copy(first, count, out); }
  int64_t document_end(int64_t, int64_t limit) const override { return limit; }
  TokenLocation locate(int64_t index) const override {
    return {file_.path(), index, index, bytes_.at(index)};
  }
  const std::string& name() const override { return file_.path(); }
  std::vector<const InputFile*> files() const override { return {&file_}; }

 private:
  InputFile file_;
  ElementArray bytes_;
};

class CharacterSource final : public TokenSource {
 public:
  CharacterSource(const std::string& path, const Vocabulary& vocabulary)
      : file_(InputFile::open(path)), vocabulary_(vocabulary) {
    each_character(file_, vocabulary_, [&](std::string_view rest, size_t* step, int64_t at) {
      if (size_++ % kStride == 0) offsets_.push_back(at);
      return vocabulary_.next(rest, step) >= 0;
    });
    ascii_ = size_ == file_.size();
    if (ascii_) std::vector<int64_t>().swap(offsets_);  // every character is its own byte offset
  }

  int64_t size() const override { return size_; }
  void copy(int64_t first, int64_t count, int32_t* out) const override {
    FileWindow window(file_, ascii_ ? count + kMostUtf8Bytes : (count + kStride) * kMostUtf8Bytes);
    int64_t at = byte_offset(first, &window);
    for (int64_t i = 0; i < count; ++i) out[i] = next(&window, &at);
  }
  int64_t document_end(int64_t, int64_t limit) const override { return limit; }
  TokenLocation locate(int64_t index) const override {
    FileWindow window(file_);
    const int64_t offset = byte_offset(index, &window);
    int64_t at = offset;
    return {file_.path(), offset, index, next(&window, &at)};
  }
  const std::string& name() const override { return file_.path(); }
  std::vector<const InputFile*> files() const override { return {&file_}; }

 private:
  static constexpr int64_t kStride =
      1024;  // characters between entries: 8 bytes of index per KiB or more of text

  /// Returns the token of the character at byte *at and advances past it. Returns -1, with *at unchanged, if
  /// the character has no token or the file, which was complete when opened, now ends here.
  int32_t next(FileWindow* window, int64_t* at) const {
    const std::string_view rest = window->at(*at, kMostUtf8Bytes);
    size_t step = 0;
    const int32_t token = rest.empty() ? -1 : vocabulary_.next(rest, &step);
    *at += static_cast<int64_t>(step);
    return token;
  }
  int64_t byte_offset(int64_t character, FileWindow* window) const {
    if (ascii_) return character;
    int64_t at = offsets_[static_cast<size_t>(character / kStride)];
    for (int64_t skip = character % kStride; skip > 0; --skip) next(window, &at);
    return at;
  }

  InputFile file_;
  Vocabulary vocabulary_;
  int64_t size_ = 0;  // characters
  bool ascii_ = false;
  std::vector<int64_t> offsets_;
};

class TokenizedSource final : public TokenSource {
 public:
  TokenizedSource(const std::string& path, const TextTokens& tokenizer)
      : file_(InputFile::open(path)), tokens_(tokenizer.encode(file_)) {}

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  void copy(int64_t first, int64_t count, int32_t* out) const override {
    std::copy_n(tokens_.begin() + first, count, out);
  }
  int64_t document_end(int64_t, int64_t limit) const override { return limit; }
  TokenLocation locate(int64_t index) const override {
    return {file_.path(), -1, index, tokens_[static_cast<size_t>(index)]};
  }
  const std::string& name() const override { return file_.path(); }
  std::vector<const InputFile*> files() const override { return {&file_}; }

 private:
  InputFile file_;
  std::vector<int32_t> tokens_;
};

}  // namespace

std::unique_ptr<TokenSource> open_text(const std::string& path, const Vocabulary& vocabulary) {
  if (vocabulary.kind() == VocabularyKind::kNone) {
    fail(Code::kFailedPrecondition,
         "{}: text needs a vocabulary; set data.vocabulary to bytes, characters or bpe", path);
  }
  if (vocabulary.tokenizer() != nullptr)
    return std::make_unique<TokenizedSource>(path, *vocabulary.tokenizer());
  if (vocabulary.kind() == VocabularyKind::kBytes) return std::make_unique<ByteSource>(path);
  return std::make_unique<CharacterSource>(path, vocabulary);
}

}  // namespace hawser::data
