#include "engine/nn/lookup_gradient.h"

#include <algorithm>

namespace hawser::nn {

int64_t LookupGradient::Sizes::rows() const {
  return std::min(joins_each ? batch : batch * micro_batches, vocab);
}

LookupGradient::Numbers::Numbers(Region* region, const Sizes& sizes)
    : tokens(region->take_as<int32_t>(sizes.joinings() * sizes.rows())),
      index(region->take_as<int32_t>(sizes.micro_batches * sizes.batch)),
      row_of(region->take_as<int32_t>(sizes.vocab)) {}

// Both sides start with the integers, so that they are the same bytes if host and device share the memory.
LookupGradient::LookupGradient(void* host, void* device, const Sizes& sizes, int64_t first)
    : sizes_(sizes), first_(first) {
  Region here(host, host_bytes(sizes)), there(device, bytes(sizes));
  host_ = Numbers(&here, sizes);
  device_ = Numbers(&there, sizes);
  rows_ = there.take_as<float>(sizes.rows() * sizes.width);
  taken_ = host_.tokens;
}

int64_t LookupGradient::host_bytes(const Sizes& sizes) {
  Region region = Region::measuring();
  const Numbers measured(&region, sizes);
  return region.used();
}

int64_t LookupGradient::bytes(const Sizes& sizes) {
  Region region = Region::measuring();
  const Numbers measured(&region, sizes);
  region.take_as<float>(sizes.rows() * sizes.width);
  return region.used();
}

int64_t LookupGradient::numbers_bytes() const {
  const int32_t* const end = host_.index + sizes_.micro_batches * sizes_.batch;
  return (end - host_.tokens) * static_cast<int64_t>(sizeof(int32_t));
}

void LookupGradient::forget() {
  for (int64_t row = 0; row < count_; ++row) host_.row_of[taken_[row]] = 0;
  count_ = 0;
}

void LookupGradient::look_up(int32_t micro_batch, const int32_t* tokens, int64_t count, int32_t skipped) {
  if (micro_batch == 0 || sizes_.joins_each) {
    forget();
    taken_ = host_.tokens + tokens_at(micro_batch);
    std::fill_n(taken_, sizes_.rows(), -1);
  }
  int32_t* const index = host_.index + micro_batch * sizes_.batch;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t word = tokens[i] - first_;
    index[i] = -1;
    if (tokens[i] == skipped || word < 0 || word >= sizes_.vocab) continue;
    int32_t& row = host_.row_of[word];
    if (row == 0) {
      HWS_CHECK(count_ < sizes_.rows());
      taken_[count_] = static_cast<int32_t>(word);
      row = static_cast<int32_t>(++count_);
    }
    index[i] = row - 1;
  }
}

}  // namespace hawser::nn
