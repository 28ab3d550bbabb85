// Text files. By bytes, token i is byte i. By characters, token i is character i, which stands at byte i only
// in ASCII: for other text a sparse index keeps the byte offset of every 1024th character, and a read steps
// from the nearest one.
#include <cstring>
#include <string_view>

#include "engine/base/error.h"
#include "engine/data/data_error.h"
#include "engine/data/element_array.h"
#include "engine/data/token_source.h"
#include "engine/data/utf8.h"

namespace hawser::data {
namespace {

class ByteSource final : public TokenSource {
 public:
  explicit ByteSource(const std::string& path)
      : file_(MappedFile::open(path)),
        bytes_{file_.data(), static_cast<int64_t>(file_.size()), ElementType::kU8} {}

  int64_t size() const override { return bytes_.size; }
  void copy(int64_t first, int64_t count, int32_t* out) const override { bytes_.copy(first, count, out); }
  int64_t document_end(int64_t, int64_t limit) const override { return limit; }
  Place locate(int64_t index) const override { return {file_.path(), index, index, bytes_.at(index)}; }
  const std::string& name() const override { return file_.path(); }
  std::vector<const MappedFile*> files() const override { return {&file_}; }

 private:
  MappedFile file_;
  ElementArray bytes_;
};

class CharacterSource final : public TokenSource {
 public:
  CharacterSource(const std::string& path, const Vocabulary& vocabulary)
      : file_(MappedFile::open(path)),
        vocabulary_(vocabulary),
        text_(reinterpret_cast<const char*>(file_.data()), file_.size()) {
    for (size_t at = 0; at < text_.size(); ++size_) {
      if (size_ % kStride == 0) offsets_.push_back(at);
      if (vocabulary_.next(text_, &at) < 0) fail_character(path, text_, at, vocabulary_);
    }
    ascii_ = size_ == static_cast<int64_t>(text_.size());
    if (ascii_) std::vector<size_t>().swap(offsets_);  // every character is its own byte offset
  }

  int64_t size() const override { return size_; }
  void copy(int64_t first, int64_t count, int32_t* out) const override {
    size_t at = byte_offset(first);
    for (int64_t i = 0; i < count; ++i) out[i] = vocabulary_.next(text_, &at);
  }
  int64_t document_end(int64_t, int64_t limit) const override { return limit; }
  Place locate(int64_t index) const override {
    size_t at = byte_offset(index);
    const int64_t offset = static_cast<int64_t>(at);
    return {file_.path(), offset, index, vocabulary_.next(text_, &at)};
  }
  const std::string& name() const override { return file_.path(); }
  std::vector<const MappedFile*> files() const override { return {&file_}; }

 private:
  static constexpr int64_t kStride =
      1024;  // characters between entries: 8 bytes of index per KiB or more of text

  size_t byte_offset(int64_t character) const {
    if (ascii_) return static_cast<size_t>(character);
    size_t at = offsets_[static_cast<size_t>(character / kStride)];
    for (int64_t skip = character % kStride; skip > 0; --skip)
      next_code_point(text_.data(), text_.size(), &at);
    return at;
  }

  MappedFile file_;
  Vocabulary vocabulary_;
  std::string_view text_;
  int64_t size_ = 0;  // characters
  bool ascii_ = false;
  std::vector<size_t> offsets_;
};

}  // namespace

std::unique_ptr<TokenSource> open_text(const std::string& path, const Vocabulary& vocabulary) {
  if (vocabulary.kind() == VocabularyKind::kNone) {
    fail(Code::kFailedPrecondition, "{}: text needs a vocabulary; set data.vocabulary to bytes or characters",
         path);
  }
  if (vocabulary.kind() == VocabularyKind::kBytes) return std::make_unique<ByteSource>(path);
  return std::make_unique<CharacterSource>(path, vocabulary);
}

}  // namespace hawser::data
