// DocumentSpool: a temporary file that stores encoded documents until each one is assigned to a row. Memory
// holds only the length and the offset of each document.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/checkpoint/file_io.h"
#include "engine/text/row_encoder.h"

namespace hawser::train {

/// One document as it is read back.
struct SpooledDocument {
  std::vector<uint32_t> tokens;
  std::vector<uint8_t> marks;  ///< flags that engine/data/prepared_folder.h defines
  std::vector<float> weights;  ///< empty: all 1
};

class DocumentSpool {
 public:
  /// Creates the file in `folder`, which must outlive this object.
  explicit DocumentSpool(const checkpoint::Folder& folder);
  void add(const text::EncodedRow& document);
  /// Call after the last add and before the first read.
  void finish();
  void read(int64_t document, SpooledDocument* out) const;
  /// Removes the file.
  void remove();

  int64_t documents() const { return static_cast<int64_t>(lengths_.size()); }
  const std::vector<int32_t>& lengths() const { return lengths_; }
  int64_t tokens() const { return tokens_; }
  int64_t learned() const { return learned_; }
  bool weighted() const { return weighted_; }

 private:
  void put(const void* data, size_t bytes);
  void flush();

  const checkpoint::Folder& folder_;
  checkpoint::File file_;
  std::vector<uint8_t> waiting_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> offsets_;  ///< -offset - 1 if the document has weights
  int64_t size_ = 0, tokens_ = 0, learned_ = 0;
  bool weighted_ = false;
};

}  // namespace hawser::train
