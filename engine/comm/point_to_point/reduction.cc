// Sums over members: an all-to-all of addends in the wire type, chunk by chunk through the staging, and an
// ordered sum on the owner; all_reduce then passes the finished chunk to everyone. The staging of a group of
// N holds, by chunks, N members' addends, one that goes out and one finished sum.
#include <algorithm>
#include <cstring>

#include "engine/comm/part.h"
#include "engine/comm/point_to_point/collectives.h"

namespace hawser::comm {

int64_t PeerCollectives::chunk_elements() const {
  constexpr int64_t kAlign = 64;
  return static_cast<int64_t>(staging_.floats.size()) / (group_->size() + 2) / kAlign * kAlign;
}

void PeerCollectives::convert(void* to, DType to_type, const void* from, DType from_type, int64_t n) {
  kernels_.convert({to, from, to_type, from_type, n}, stream_);
}

/// Sends each member its part of `in` and sums what comes for this one into out.
template <class Range>
void PeerCollectives::sum_part(const void* in, const Range& range_of, float* out, bool accumulate) {
  const Reduction& reduction = call_->reduction;
  const int32_t n = group_->size(), me = group_->member;
  const int64_t width = dtype_bytes(reduction.wire);
  const bool narrow = reduction.wire != reduction.in_type;
  const auto addends = [&](const Part& part) {
    return static_cast<const char*>(in) + part.begin * dtype_bytes(reduction.in_type);
  };
  const Part mine = range_of(me);
  for_each_partner([&](int32_t m) {
    const Part theirs = range_of(m);
    const void* outgoing = addends(theirs);
    if (narrow) {
      convert(slot(n), reduction.wire, outgoing, reduction.in_type, theirs.count);
      outgoing = slot(n);
    }
    exchange(m, outgoing, theirs.count * width, slot(m), mine.count * width, true);
  });
  for (int32_t m = 0; m < n; ++m) addends_[m] = slot(m);
  if (narrow) {
    convert(slot(me), reduction.wire, addends(mine), reduction.in_type, mine.count);
  } else {
    addends_[me] = addends(mine);
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
  const bool in_place = call_->reduction.out_type == DType::kF32;
  float* const aside = slot(group_->size() + 1);
  for (const ReducePiece& piece : call_->reduce) {
    const int64_t share = piece.shard_elements;
    for (int64_t at = 0; at < share; at += chunk) {
      const auto range_of = [&](int32_t m) { return chunk_of(m * share, (m + 1) * share, at, chunk); };
      sum_part(piece.full, range_of, in_place ? static_cast<float*>(piece.shard) + at : aside,
               in_place && call_->reduction.accumulate);
      if (!in_place) place(piece.shard, at, aside, range_of(group_->member).count);
    }
  }
}

/// A finished sum to elements `at` and on of where it is wanted.
void PeerCollectives::place(void* out, int64_t at, const float* sum, int64_t count) {
  const Reduction& r = call_->reduction;
  void* const to = static_cast<char*>(out) + at * dtype_bytes(r.out_type);
  if (r.out_type != DType::kF32) {
    kernels_.convert({to, sum, r.out_type, DType::kF32, count, r.accumulate}, stream_);
  } else if (r.accumulate) {
    kernels_.add({static_cast<float*>(to), static_cast<float*>(to), sum, count}, stream_);
  } else if (count > 0) {
    std::memcpy(to, sum, static_cast<size_t>(count) * sizeof(float));
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
void PeerCollectives::spread_part(void* out, const Range& range_of) {
  const DType type = call_->reduction.round_to;
  const int32_t n = group_->size(), me = group_->member;
  const int64_t width = dtype_bytes(type);
  const Part mine = range_of(me);
  float* const finished = slot(n + 1);
  const void* outgoing = finished;
  if (type != DType::kF32) {
    convert(slot(n), type, finished, DType::kF32, mine.count);
    outgoing = slot(n);
  }
  for_each_partner(
      [&](int32_t m) { exchange(m, outgoing, mine.count * width, slot(m), range_of(m).count * width); });
  place(out, mine.begin, finished, mine.count);
  for (int32_t m = 0; m < n; ++m) {
    if (m == me) continue;
    const Part theirs = range_of(m);
    const float* sum = slot(m);
    if (type != DType::kF32) {
      convert(finished, DType::kF32, slot(m), type, theirs.count);
      sum = finished;
    }
    place(out, theirs.begin, sum, theirs.count);
  }
}

}  // namespace hawser::comm
