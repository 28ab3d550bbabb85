// Prepared source: reads rows that `hawser prepare` made; each row is used unchanged. It does not depend on
// text.
#include <fmt/format.h>

#include <algorithm>

#include "engine/data/data_error.h"
#include "engine/data/element_array.h"
#include "engine/data/prepared_folder.h"
#include "engine/data/row_documents.h"
#include "engine/data/token_source.h"

namespace hawser::data {
namespace {

/// Folders up to this size are digested when they are opened; larger ones when a checkpoint is written.
constexpr int64_t kDigestedTokens = int64_t{64} << 20;

class PreparedSource final : public TokenSource {
 public:
  explicit PreparedSource(const std::string& folder)
      : folder_(folder),
        manifest_(read_manifest(folder)),
        tokens_file_(open(kPreparedTokens, 4)),
        marks_file_(open(kPreparedMarks, 1)),
        tokens_{&tokens_file_, size(), ElementType::kU32} {
    if (manifest_.weighted) weights_file_ = open(kPreparedWeights, 4);
    if (size() > kDigestedTokens) return;
    check_digest(tokens_file_, manifest_.tokens_digest);
    check_digest(marks_file_, manifest_.marks_digest);
    if (manifest_.weighted) check_digest(weights_file_, manifest_.weights_digest);
  }

  int64_t size() const override { return manifest_.rows * manifest_.cols; }
  void copy(int64_t first, int64_t count, int32_t* out) const override { tokens_.copy(first, count, out); }
  int64_t document_end(int64_t at, int64_t limit) const override {
    uint8_t marks[kMarks];
    for (++at; at < limit; at += kMarks) {
      const int64_t count = std::min<int64_t>(kMarks, limit - at);
      marks_file_.read_at(at, marks, count);
      for (int64_t i = 0; i < count; ++i)
        if ((marks[i] & kDocumentBegin) != 0) return at + i;
    }
    return limit;
  }
  TokenLocation locate(int64_t index) const override {
    return {tokens_file_.path(), index * 4, index, tokens_.at(index)};
  }
  const std::string& name() const override { return folder_; }
  std::vector<const InputFile*> files() const override {
    std::vector<const InputFile*> files = {&tokens_file_, &marks_file_};
    if (manifest_.weighted) files.push_back(&weights_file_);
    return files;
  }

  int64_t row_length() const override { return manifest_.cols; }
  bool has_documents() const override { return manifest_.packed; }
  bool has_weights() const override { return manifest_.weighted; }
  bool has_pairs() const override { return manifest_.pairs; }
  void mark_row(int64_t first, const MarkedRow& row) const override {
    const int64_t cols = row.cols;
    int32_t begin = 0;
    uint8_t marks[kMarks];
    for (int64_t at = 0; at < cols; at += kMarks) {
      const int64_t count = std::min<int64_t>(kMarks, cols - at);
      marks_file_.read_at(first + at, marks, count);
      for (int64_t i = 0; i < count; ++i) {
        const auto column = static_cast<int32_t>(at + i);
        if ((marks[i] & kDocumentBegin) != 0) begin = column;
        if (column > 0)
          row.targets[column - 1] = (marks[i] & kTargetToken) != 0 ? row.tokens[column] : kMaskedTarget;
        if (row.kv_begin != nullptr) row.kv_begin[column] = begin;
        if (row.positions != nullptr) row.positions[column] = column - begin;
      }
    }
    row.targets[cols - 1] = kMaskedTarget;
    if (row.weights != nullptr) read_weights(first, cols, row.weights);
  }

 private:
  static constexpr int64_t kMarks = 4096;

  /// Reads the weights of a row's targets: the target of column t is token t + 1, so its weight is stored
  /// there.
  void read_weights(int64_t first, int64_t cols, float* weights) const {
    std::fill_n(weights, cols, 1.0f);
    if (manifest_.weighted && cols > 1) weights_file_.read_at((first + 1) * 4, weights, (cols - 1) * 4);
  }

  InputFile open(const char* name, int64_t bytes_each) const {
    InputFile file = InputFile::open(folder_ + "/" + name);
    const int64_t expected = manifest_.rows * manifest_.cols * bytes_each;
    if (file.size() != expected)
      fail_data(
          file.path(), -1,
          fmt::format(
              "has {} bytes, but {} rows of {} tokens take {}; the folder is damaged, prepare the data again",
              file.size(), manifest_.rows, manifest_.cols, expected));
    return file;
  }

  static void check_digest(const InputFile& file, const std::string& expected) {
    if (const std::string found = file_digest(file); found != expected)
      fail_data(file.path(), -1,
                fmt::format("has the digest {}, but {} says {}; the file is damaged or from another folder, "
                            "prepare the data again",
                            found, kPreparedManifest, expected));
  }

  const std::string folder_;
  const PreparedManifest manifest_;
  const InputFile tokens_file_, marks_file_;
  InputFile weights_file_;
  const ElementArray tokens_;
};

}  // namespace

std::unique_ptr<TokenSource> open_prepared(const std::string& folder) {
  return std::make_unique<PreparedSource>(folder);
}

}  // namespace hawser::data
