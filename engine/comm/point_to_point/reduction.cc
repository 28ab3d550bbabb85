// Sums over members: an all-to-all of addends in the wire type, chunk by chunk through the staging, and an
// ordered sum on the owner; all_reduce then passes the finished chunk to everyone. The staging of a group of
// N holds, by chunks, N members' addends, one that goes out and one finished sum.
#include <algorithm>
#include <cstring>

#include "engine/comm/point_to_point/collectives.h"

namespace hawser::comm {
namespace {

struct Part {
  int64_t begin = 0, count = 0;
};

/// The elements of [begin, end) that lie in the chunk of them that starts at `at`.
Part chunk_of(int64_t begin, int64_t end, int64_t at, int64_t chunk) {
  return {begin + at, std::clamp<int64_t>(end - begin - at, 0, chunk)};
}

}  // namespace

int64_t PeerCollectives::chunk_elements() const {
  constexpr int64_t kAlign = 64;
  return static_cast<int64_t>(staging_.floats.size()) / (group_->size() + 2) / kAlign * kAlign;
}

void PeerCollectives::convert(void* to, DType to_type, const void* from, DType from_type, int64_t n) {
  kernels_.convert({to, from, to_type, from_type, n}, stream_);
}

/// Sends each member its part of `in` and sums what comes for this one into out.
template <class Range>
void PeerCollectives::sum_part(const float* in, const Range& range_of, float* out, bool accumulate) {
  const Reduction& reduction = call_->reduction;
  const int32_t n = group_->size(), me = group_->member;
  const int64_t width = dtype_bytes(reduction.wire);
  const bool narrow = reduction.wire != DType::kF32;
  const Part mine = range_of(me);
  for_each_partner([&](int32_t m) {
    const Part theirs = range_of(m);
    const void* outgoing = in + theirs.begin;
    if (narrow) {
      convert(slot(n), reduction.wire, outgoing, DType::kF32, theirs.count);
      outgoing = slot(n);
    }
    exchange(m, outgoing, theirs.count * width, slot(m), mine.count * width);
  });
  for (int32_t m = 0; m < n; ++m) addends_[m] = slot(m);
  if (narrow) {
    convert(slot(me), reduction.wire, in + mine.begin, DType::kF32, mine.count);
  } else {
    addends_[me] = in + mine.begin;
  }
  kernels_.ordered_sum({.out = out,
                        .in = addends_.data(),
                        .in_type = reduction.wire,
                        .round_to = reduction.round_to,
                        .members = n,
                        .sum_group = reduction.sum_group,
                        .tree = reduction.tree,
                        .accumulate = accumulate,
                        .n = mine.count},
                       stream_);
}

void PeerCollectives::reduce_scatter() {
  const int64_t chunk = chunk_elements();
  for (const ReducePiece& piece : call_->reduce) {
    const int64_t share = piece.shard_elements;
    for (int64_t at = 0; at < share; at += chunk) {
      sum_part(
          piece.full, [&](int32_t m) { return chunk_of(m * share, (m + 1) * share, at, chunk); },
          piece.shard + at, call_->reduction.accumulate);
    }
  }
}

void PeerCollectives::all_reduce() {
  const int64_t chunk = chunk_elements();
  const int32_t n = group_->size();
  for (const AllReducePiece& piece : call_->all_reduce) {
    const int64_t share = reduce_share(piece.elements, n);
    for (int64_t at = 0; at < share; at += chunk) {
      const auto range_of = [&](int32_t m) {
        return chunk_of(std::min(piece.elements, m * share), std::min(piece.elements, (m + 1) * share), at,
                        chunk);
      };
      sum_part(piece.in, range_of, slot(n + 1), false);
      spread_part(piece.out, range_of);
    }
  }
}

/// The finished sum in slot N + 1 goes to all, theirs come; each lands in `out`, or is added to it.
template <class Range>
void PeerCollectives::spread_part(float* out, const Range& range_of) {
  const DType type = call_->reduction.round_to;
  const int32_t n = group_->size(), me = group_->member;
  const int64_t width = dtype_bytes(type);
  const Part mine = range_of(me);
  float* const finished = slot(n + 1);
  const auto place = [&](const float* sum, const Part& part) {
    if (call_->reduction.accumulate) {
      kernels_.add({out + part.begin, out + part.begin, sum, part.count}, stream_);
    } else if (part.count > 0) {
      std::memcpy(out + part.begin, sum, static_cast<size_t>(part.count) * sizeof(float));
    }
  };
  const void* outgoing = finished;
  if (type != DType::kF32) {
    convert(slot(n), type, finished, DType::kF32, mine.count);
    outgoing = slot(n);
  }
  for_each_partner(
      [&](int32_t m) { exchange(m, outgoing, mine.count * width, slot(m), range_of(m).count * width); });
  place(finished, mine);
  for (int32_t m = 0; m < n; ++m) {
    if (m == me) continue;
    const Part theirs = range_of(m);
    const float* sum = slot(m);
    if (type != DType::kF32) {
      convert(finished, DType::kF32, slot(m), type, theirs.count);
      sum = finished;
    }
    place(sum, theirs);
  }
}

}  // namespace hawser::comm
