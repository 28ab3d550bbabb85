#include "engine/prepare/write_rows.h"

#include <algorithm>

#include "engine/base/interrupt.h"
#include "engine/base/philox.h"
#include "engine/data/best_fit.h"
#include "engine/data/permutation.h"

namespace hawser::train {
namespace {

constexpr uint64_t kOrderSite = 0x726f77206f726472;  // separates this use of the seed from others
constexpr size_t kFlushedBytes = size_t{1} << 20;

/// A file of values of T. It buffers them, so that each write is large.
template <typename T>
class Column {
 public:
  Column(const checkpoint::Folder& folder, const char* name)
      : path_(folder.path_of(name)), file_(folder.create_file(name)) {}

  void add(const std::vector<T>& values) {
    waiting_.insert(waiting_.end(), values.begin(), values.end());
    if (waiting_.size() * sizeof(T) >= kFlushedBytes) flush();
  }
  /// Flushes and closes the file and returns its digest.
  std::string finish() {
    flush();
    file_.sync();
    file_.close();
    return data::file_digest(InputFile::open(path_));
  }

 private:
  void flush() {
    file_.write(waiting_.data(), static_cast<int64_t>(waiting_.size() * sizeof(T)));
    waiting_.clear();
  }

  const std::string path_;
  checkpoint::File file_;
  std::vector<T> waiting_;
};

/// A row that is being filled.
struct Row {
  std::vector<uint32_t> tokens;
  std::vector<uint8_t> marks;
  std::vector<float> weights;

  void clear() {
    tokens.clear();
    marks.clear();
    weights.clear();
  }
  void add(const SpooledDocument& document) {
    tokens.insert(tokens.end(), document.tokens.begin(), document.tokens.end());
    marks.insert(marks.end(), document.marks.begin(), document.marks.end());
    weights.insert(weights.end(), document.weights.begin(), document.weights.end());
    weights.resize(tokens.size(), 1.0f);
  }
  /// Pads the row to `cols` tokens. The padding is a document of its own without targets.
  void fill(size_t cols) {
    const size_t used = tokens.size();
    tokens.resize(cols, 0);
    marks.resize(cols, 0);
    weights.resize(cols, 1.0f);
    if (used < cols) marks[used] = data::kDocumentBegin;
  }
};

}  // namespace

void write_rows(const DocumentSpool& spool, const checkpoint::Folder& folder, bool packing, uint64_t seed,
                data::PreparedManifest* manifest) {
  const data::PackedRows rows = packing && !manifest->pairs
                                    ? data::best_fit_decreasing(spool.lengths(), manifest->cols)
                                    : data::one_in_each_row(spool.documents());
  const uint64_t key = philox_derive(seed, kOrderSite, 0);
  Column<uint32_t> tokens(folder, data::kPreparedTokens);
  Column<uint8_t> marks(folder, data::kPreparedMarks);
  std::optional<Column<float>> weights;
  if (spool.weighted()) weights.emplace(folder, data::kPreparedWeights);
  Row row;
  SpooledDocument document;
  const int64_t together = manifest->pairs ? 2 : 1;
  for (int64_t place = 0; place < rows.rows(); ++place) {
    const auto group = static_cast<int64_t>(data::permute(
        static_cast<uint64_t>(place / together), static_cast<uint64_t>(rows.rows() / together), key));
    const auto index = static_cast<size_t>(group * together + place % together);
    if (place % 64 == 0) check_interrupt();
    row.clear();
    for (int64_t i = rows.begins[index]; i < rows.begins[index + 1]; ++i) {
      spool.read(rows.documents[static_cast<size_t>(i)], &document);
      row.add(document);
    }
    manifest->packed = manifest->packed || rows.begins[index + 1] - rows.begins[index] > 1;
    row.fill(static_cast<size_t>(manifest->cols));
    tokens.add(row.tokens);
    marks.add(row.marks);
    if (weights) weights->add(row.weights);
  }
  manifest->rows = rows.rows();
  manifest->weighted = spool.weighted();
  manifest->tokens_digest = tokens.finish();
  manifest->marks_digest = marks.finish();
  if (weights) manifest->weights_digest = weights->finish();
}

}  // namespace hawser::train
