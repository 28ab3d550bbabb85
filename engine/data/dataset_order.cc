// The order of a dataset's samples: which row of which source has a sample number.
#include <algorithm>

#include "engine/base/philox.h"
#include "engine/data/dataset.h"
#include "engine/data/permutation.h"

namespace hawser::data {
namespace {

constexpr uint64_t kShuffleSite = 0x73687566666c65;  // "shuffle": separates this use of the seed from others

}  // namespace

/// Returns the row of a source's training part that holds a training sample.
int64_t Dataset::train_row(const Mixture::Pick& pick, uint64_t sample) const {
  const SourceRange& part = train_[static_cast<size_t>(pick.source)];
  const uint64_t count = static_cast<uint64_t>(part.samples) / together_;
  const uint64_t epoch = pick.sample / count;
  uint64_t index = pick.sample % count;
  if (shuffle_) {
    const uint64_t source_key = philox_derive(seed_, kShuffleSite, static_cast<uint64_t>(pick.source));
    const uint64_t key = philox_derive(source_key, kShuffleSite, epoch);
    index = groups_ ? static_cast<uint64_t>(groups_->unit(index, epoch * count, key))
                    : permute(index, count, key);
  }
  return static_cast<int64_t>(index * together_ + sample % together_);
}

Dataset::Window Dataset::train_window(uint64_t sample) const {
  const Mixture::Pick pick = mixture_.pick(sample / together_);
  const SourceRange& part = train_[static_cast<size_t>(pick.source)];
  const int64_t row = train_row(pick, sample);
  int64_t before = 0;
  for (int64_t i = 0; i < pick.source; ++i) before += train_[static_cast<size_t>(i)].samples;
  return {part.source, part.begin + row * cols_, before + row};
}

int64_t Dataset::columns(uint64_t first_sample, int64_t rows, int64_t multiple) const {
  if (!groups_) return cols_;
  int64_t longest = 1;
  for (uint64_t i = 0; i < static_cast<uint64_t>(rows); ++i)
    longest = std::max(
        longest, groups_->length(train_row(mixture_.pick((first_sample + i) / together_), first_sample + i)));
  return std::min(cols_, (longest + multiple - 1) / multiple * multiple);
}

Dataset::Window Dataset::stored_window(int64_t row) const {
  const std::vector<SourceRange>* parts = &train_;
  int64_t index = row;
  size_t at = 0;
  while (index >= (*parts)[at].samples) {
    index -= (*parts)[at++].samples;
    if (at == train_.size() && parts == &train_) parts = &validation_, at = 0;
  }
  return {(*parts)[at].source, (*parts)[at].begin + index * cols_, row};
}

}  // namespace hawser::data
