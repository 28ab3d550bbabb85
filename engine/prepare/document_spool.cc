#include "engine/prepare/document_spool.h"

#include <algorithm>

#include "engine/data/prepared_folder.h"

namespace hawser::train {
namespace {

constexpr const char* kName = "documents.tmp";
constexpr size_t kWritten = size_t{1} << 20;
constexpr uint32_t kLearnedBit = uint32_t{1} << 31;  // every id is less than this

}  // namespace

DocumentSpool::DocumentSpool(const checkpoint::Folder& folder)
    : folder_(folder), file_(folder.create_file(kName)) {}

void DocumentSpool::add(const text::EncodedRow& document) {
  const size_t length = document.ids.size();
  bool own = false;
  for (size_t i = 0; i < length; ++i) {
    const bool learned = i > 0 && document.weights[i] != 0;
    const uint32_t stored = document.ids[i] | (learned ? kLearnedBit : 0);
    own = own || (learned && document.weights[i] != 1);
    learned_ += learned ? 1 : 0;
    put(&stored, sizeof stored);
  }
  lengths_.push_back(static_cast<int32_t>(length));
  offsets_.push_back(own ? -size_ - 1 : size_);
  size_ += static_cast<int64_t>(length * sizeof(uint32_t));
  tokens_ += static_cast<int64_t>(length);
  if (!own) return;
  weighted_ = true;
  for (size_t i = 0; i < length; ++i) {
    const float weight = document.weights[i] != 0 ? document.weights[i] : 1.0f;
    put(&weight, sizeof weight);
  }
  size_ += static_cast<int64_t>(length * sizeof(float));
}

void DocumentSpool::finish() {
  flush();
  file_.close();
  file_ = folder_.open_file(kName);
}

void DocumentSpool::read(int64_t document, SpooledDocument* out) const {
  const auto i = static_cast<size_t>(document);
  const auto length = static_cast<size_t>(lengths_[i]);
  const bool own = offsets_[i] < 0;
  const int64_t at = own ? -(offsets_[i] + 1) : offsets_[i];
  out->tokens.resize(length);
  out->marks.assign(length, 0);
  out->weights.clear();
  const auto bytes = static_cast<int64_t>(length * sizeof(uint32_t));
  file_.read_at(at, out->tokens.data(), bytes);
  for (size_t t = 0; t < length; ++t) {
    if ((out->tokens[t] & kLearnedBit) != 0) out->marks[t] = data::kTargetToken;
    out->tokens[t] &= ~kLearnedBit;
  }
  out->marks[0] |= data::kDocumentBegin;
  if (!own) return;
  out->weights.resize(length);
  file_.read_at(at + bytes, out->weights.data(), bytes);
}

void DocumentSpool::remove() {
  file_ = {};
  folder_.remove_tree(kName);
}

void DocumentSpool::put(const void* data, size_t bytes) {
  const auto* const begin = static_cast<const uint8_t*>(data);
  waiting_.insert(waiting_.end(), begin, begin + bytes);
  if (waiting_.size() >= kWritten) flush();
}

void DocumentSpool::flush() {
  file_.write(waiting_.data(), static_cast<int64_t>(waiting_.size()));
  waiting_.clear();
}

}  // namespace hawser::train
