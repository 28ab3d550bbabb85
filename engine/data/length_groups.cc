#include "engine/data/length_groups.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/data/permutation.h"

namespace hawser::data {
namespace {

constexpr uint64_t kGroupSite = 0x67726f757073;  // "groups": separates this use of the key from others
/// A bucket has at most this many groups, and at least two, so that epochs have other neighbours.
constexpr uint64_t kMostGroups = 50;
/// Number of buckets that the lengths are divided into, if there are enough groups.
constexpr uint64_t kBuckets = 16;

}  // namespace

bool has_lengths(const TokenSource& source) { return source.row_length() > 0 && !source.has_documents(); }

LengthGroups::LengthGroups(const TokenSource& source, int64_t begin, int64_t samples, int64_t together,
                           int64_t group)
    : group_(static_cast<uint64_t>(std::max<int64_t>(1, group))) {
  const int64_t cols = source.row_length(), units = samples / together;
  if (units > std::numeric_limits<uint32_t>::max())
    fail(Code::kOutOfRange, "{} has {} rows, too many to group by length; prepare them with packing",
         source.name(), samples);
  lengths_.resize(static_cast<size_t>(samples));
  for (int64_t row = 0; row < samples; ++row) {
    const int64_t first = begin + row * cols;
    lengths_[static_cast<size_t>(row)] =
        static_cast<int32_t>(source.document_end(first, first + cols) - first);
  }
  sorted_.resize(static_cast<size_t>(units));
  std::iota(sorted_.begin(), sorted_.end(), uint32_t{0});
  const auto longest = [&](uint32_t unit) {
    const auto from = lengths_.begin() + static_cast<std::ptrdiff_t>(unit * together);
    return *std::max_element(from, from + together);
  };
  std::stable_sort(sorted_.begin(), sorted_.end(),
                   [&](uint32_t a, uint32_t b) { return longest(a) > longest(b); });
  const uint64_t groups = static_cast<uint64_t>(units) / group_;
  bucket_ = group_ * std::clamp<uint64_t>(groups / kBuckets, 2, kMostGroups);
}

int64_t LengthGroups::unit(uint64_t index, uint64_t first, uint64_t key) const {
  const uint64_t units = sorted_.size();
  // The epoch may begin and end within a group of the stream. Its complete groups are shuffled; the ends get
  // the units that are left, the shortest.
  const uint64_t head = std::min((group_ - first % group_) % group_, units);
  const uint64_t groups = (units - head) / group_, grouped = groups * group_;
  uint64_t place = index;
  if (index < head) {
    place = grouped + index;
  } else if (index - head < grouped) {
    const uint64_t at = index - head;
    place = permute(at / group_, groups, key) * group_ + at % group_;
  }
  const uint64_t bucket = place / bucket_, begin = bucket * bucket_;
  const uint64_t count = std::min(bucket_, units - begin);
  return sorted_[begin + permute(place - begin, count, philox_derive(key, kGroupSite, bucket))];
}

}  // namespace hawser::data
