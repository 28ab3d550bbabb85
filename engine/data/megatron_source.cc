// Megatron source: reads Megatron's indexed data, version 1. The index (all little-endian, packed):
//   9 bytes "MMIDIDX\0\0" | u64 version = 1 | u8 dtype code | u64 sequences S | u64 document entries D
//   i32 length[S] (tokens) | i64 pointer[S] (bytes into .bin) | i64 document[D] (first sequence of each; the
//   last is S)
// Every value of the index is checked against the sizes of the two files before it is used. Sequences must
// follow each other, as every writer stores them, so that the .bin file is one stream and no separate index
// of tokens is needed.
#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "engine/base/error.h"
#include "engine/data/data_error.h"
#include "engine/data/element_array.h"
#include "engine/data/token_source.h"

namespace hawser::data {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr int64_t kDtypeOffset = 17, kSequencesOffset = 18, kDocumentsOffset = 26;

template <typename T>
T load(const InputFile& file, int64_t offset) {
  T value;
  file.read_at(offset, &value, sizeof value);
  return value;
}

/// Like load above, for reading front to back.
template <typename T>
T load(FileWindow* window, int64_t offset) {
  T value;
  std::memcpy(&value, window->at(offset, sizeof value).data(), sizeof value);
  return value;
}

ElementType element_of(const InputFile& index) {
  const int code = load<uint8_t>(index, kDtypeOffset);
  switch (code) {
    case 1:
      return ElementType::kU8;
    case 2:
      return ElementType::kI8;
    case 3:
      return ElementType::kI16;
    case 4:
      return ElementType::kI32;
    case 5:
      return ElementType::kI64;
    case 8:
      return ElementType::kU16;
    case 6:
      fail_data(index.path(), kDtypeOffset, "dtype code 6 is float64; token ids must be integers");
    case 7:
      fail_data(index.path(), kDtypeOffset, "dtype code 7 is float32; token ids must be integers");
    default:
      break;
  }
  fail_data(
      index.path(), kDtypeOffset,
      fmt::format("unknown dtype code {} at offset {}; known are 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16",
                  code, kDtypeOffset));
}

/// The index's three tables, checked against the size of the file.
struct Index {
  int64_t sequences = 0, documents = 0;
  int64_t lengths_at = 0, pointers_at = 0, documents_at = 0;  // byte offsets
};

void check_header(const InputFile& index) {
  if (!index.contains(0, kHeaderBytes)) {
    fail_data(index.path(), index.size(),
              fmt::format("{} bytes is less than the {} of a Megatron index header; the file is cut off",
                          index.size(), kHeaderBytes));
  }
  char magic[kMagic.size()];
  index.read_at(0, magic, sizeof magic);
  if (std::string_view(magic, sizeof magic) != kMagic) {
    fail_data(index.path(), 0,
              "does not start with \"MMIDIDX\", so it is not a Megatron index; use data.format tokens "
              "for raw token ids");
  }
  const uint64_t version = load<uint64_t>(index, 9);
  if (version != 1) {
    fail_data(index.path(), 9, fmt::format("index version {} at offset 9; only version 1 is known", version));
  }
}

Index check_sizes(const InputFile& index) {
  const uint64_t sequences = load<uint64_t>(index, kSequencesOffset);
  const uint64_t documents = load<uint64_t>(index, kDocumentsOffset);
  const uint64_t size = static_cast<uint64_t>(index.size()), room = size - kHeaderBytes;
  const bool sequences_fit = sequences <= room / 12;
  if (!sequences_fit || documents > (room - 12 * sequences) / 8) {
    fail_data(
        index.path(), sequences_fit ? kDocumentsOffset : kSequencesOffset,
        fmt::format("the header claims {} sequences and {} document entries, more than the file's {} bytes "
                    "hold; the file is cut off or damaged",
                    sequences, documents, index.size()));
  }
  const uint64_t rest = room - 12 * sequences - 8 * documents;
  const int64_t end = static_cast<int64_t>(size - rest);
  if (rest != 0 && rest == sequences) {
    fail_data(index.path(), end,
              "holds sequence modes (multimodal data), which are not supported; write text only");
  }
  if (rest != 0) {
    fail_data(
        index.path(), end,
        fmt::format("{} bytes follow the tables of {} sequences and {} document entries, which end at offset "
                    "{}; the header is damaged",
                    rest, sequences, documents, end));
  }
  Index tables;
  tables.sequences = static_cast<int64_t>(sequences);
  tables.documents = static_cast<int64_t>(documents);
  tables.lengths_at = kHeaderBytes;
  tables.pointers_at = tables.lengths_at + 4 * tables.sequences;
  tables.documents_at = tables.pointers_at + 8 * tables.sequences;
  return tables;
}

/// Checks lengths and pointers: sequences must follow one another from the start of the .bin file to its end.
void check_sequences(const InputFile& index, const Index& tables, const InputFile& bin, int64_t element) {
  FileWindow lengths(index), pointers(index);
  const int64_t bytes = bin.size();
  int64_t expected = 0;  // stays <= bytes, so no sum overflows
  for (int64_t i = 0; i < tables.sequences; ++i) {
    const int64_t length_at = tables.lengths_at + 4 * i, pointer_at = tables.pointers_at + 8 * i;
    const int64_t length = load<int32_t>(&lengths, length_at), pointer = load<int64_t>(&pointers, pointer_at);
    if (length < 0) {
      fail_data(
          index.path(), length_at,
          fmt::format("sequence {} has length {} at offset {}; the index is damaged", i, length, length_at));
    }
    if (pointer != expected) {
      fail_data(index.path(), pointer_at,
                fmt::format(
                    "sequence {} starts at byte {} of the .bin file (offset {}), but the one before it ends "
                    "at {}; the index is damaged or made for another dtype",
                    i, pointer, pointer_at, expected));
    }
    if (length * element > bytes - expected) {
      fail_data(index.path(), length_at,
                fmt::format(
                    "sequence {} of {} tokens at byte {} reaches beyond the {} bytes of {}; the .bin file is "
                    "cut off or belongs to another index",
                    i, length, pointer, bytes, bin.path()));
    }
    expected += length * element;
  }
  if (expected != bytes) {
    fail_data(bin.path(), expected,
              fmt::format("{} bytes, but {} describes {}; the files do not belong together", bytes,
                          index.path(), expected));
  }
}

void check_documents(const InputFile& index, const Index& tables) {
  FileWindow entries(index);
  int64_t last = 0;
  for (int64_t i = 0; i < tables.documents; ++i) {
    const int64_t at = tables.documents_at + 8 * i, first = load<int64_t>(&entries, at);
    if (first < last || first > tables.sequences || (i == 0 && first != 0)) {
      fail_data(
          index.path(), at,
          fmt::format(
              "document entry {} at offset {} is sequence {}; entries must start at 0, never decrease and "
              "not exceed the {} sequences",
              i, at, first, tables.sequences));
    }
    last = first;
  }
  if (last != tables.sequences) {
    const int64_t at =
        tables.documents > 0 ? tables.documents_at + 8 * (tables.documents - 1) : kDocumentsOffset;
    fail_data(
        index.path(), at,
        fmt::format("the last document entry is sequence {}, not the number of sequences {}; the index is "
                    "damaged",
                    last, tables.sequences));
  }
}

class MegatronSource final : public TokenSource {
 public:
  explicit MegatronSource(const std::string& prefix)
      : name_(prefix), index_(InputFile::open(prefix + ".idx")), bin_(InputFile::open(prefix + ".bin")) {
    check_header(index_);
    const ElementType type = element_of(index_);
    tables_ = check_sizes(index_);
    check_sequences(index_, tables_, bin_, element_bytes(type));
    check_documents(index_, tables_);
    tokens_ = {&bin_, bin_.size() / element_bytes(type), type};
  }

  int64_t size() const override { return tokens_.size; }
  void copy(int64_t first, int64_t count, int32_t* out) const override { tokens_.copy(first, count, out); }
  int64_t document_end(int64_t at, int64_t limit) const override {
    // Finds the start of the first entry after `at`. Starts never decrease, and entries may be empty
    // documents.
    int64_t low = 0, high = tables_.documents, end = limit;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2, start = document_start(middle);
      if (start > at) {
        high = middle;
        end = start;
      } else {
        low = middle + 1;
      }
    }
    return end < limit ? end : limit;
  }
  TokenLocation locate(int64_t index) const override {
    return {bin_.path(), index * element_bytes(tokens_.type), index, tokens_.at(index)};
  }
  const std::string& name() const override { return name_; }
  std::vector<const InputFile*> files() const override { return {&bin_, &index_}; }

 private:
  /// Returns the first token of a document entry.
  int64_t document_start(int64_t entry) const {
    const int64_t sequence = load<int64_t>(index_, tables_.documents_at + 8 * entry);
    if (sequence == tables_.sequences) return tokens_.size;
    if (sequence < 0 || sequence > tables_.sequences) {
      fail_data(index_.path(), -1, "has changed since it was opened; do not change data while it is used");
    }
    return load<int64_t>(index_, tables_.pointers_at + 8 * sequence) / element_bytes(tokens_.type);
  }

  std::string name_;
  InputFile index_, bin_;
  Index tables_;
  ElementArray tokens_;
};

}  // namespace

std::unique_ptr<TokenSource> open_megatron(const std::string& prefix) {
  if (prefix.ends_with(".bin") || prefix.ends_with(".idx")) {
    return std::make_unique<MegatronSource>(prefix.substr(0, prefix.size() - 4));
  }
  return std::make_unique<MegatronSource>(prefix);
}

}  // namespace hawser::data
