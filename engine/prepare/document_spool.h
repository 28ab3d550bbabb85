// DocumentSpool: encoded documents on disk, until it is known which row each goes to. Memory holds a few
// bytes for each.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/checkpoint/file_io.h"
#include "engine/text/row_encoder.h"

namespace hawser::train {

/// One document as it is read back.
struct SpooledDocument {
  std::vector<uint32_t> tokens;
  std::vector<uint8_t> marks;  ///< engine/data/prepared_folder.h
  std::vector<float> weights;  ///< empty: all 1
};

class DocumentSpool {
 public:
  /// Makes a file in `folder`; the folder must outlive this.
  explicit DocumentSpool(const checkpoint::Folder& folder);
  void add(const text::EncodedRow& document);
  /// After the last add, before the first read.
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
  std::vector<int64_t> offsets_;  ///< negative minus 1: with weights
  int64_t size_ = 0, tokens_ = 0, learned_ = 0;
  bool weighted_ = false;
};

}  // namespace hawser::train
