// Sums over members on devices: an all-to-all of addends in the wire type, chunk by chunk through the
// staging, and an ordered sum on the owner; all_reduce then passes the finished chunk to everyone. What
// follows on one stream follows in time, so a slot may be used again as soon as its reader was given.
#include "engine/comm/device/device_collectives.h"
#include "engine/comm/part.h"
#include "engine/device/check.h"

namespace hawser::comm {
namespace {

constexpr int64_t kAlign = 64;
constexpr int64_t kFloat = sizeof(float);
/// Larger arrays go in chunks of this size, enough to keep a fast link busy.
constexpr int64_t kMostStaging = int64_t{64} << 20;

int64_t aligned(int64_t elements) { return (elements + kAlign - 1) / kAlign * kAlign; }

}  // namespace

int64_t device_staging_bytes(int64_t shard_elements, int64_t members) {
  const int64_t slots = members + 2;
  const int64_t most = std::max(kMostStaging / kFloat / slots / kAlign * kAlign, kAlign);
  return slots * std::min(aligned(shard_elements), most) * kFloat;
}

int64_t DeviceCollectives::chunk_elements() const {
  return staging_bytes_ / kFloat / (group_->members + 2) / kAlign * kAlign;
}

void DeviceCollectives::convert(void* to, DType to_type, const void* from, DType from_type, int64_t n) {
  if (n > 0) kernels_.convert({to, from, to_type, from_type, n}, stream_);
}

/// Sends each member its part of `in` and sums what comes for this one into out. Narrow addends are as wide
/// as half a slot: those that go out lie in the first half of the members' slots, those that come in the
/// second.
template <class Range>
void DeviceCollectives::sum_part(const void* in, const Range& range_of, float* out, bool accumulate) {
  const int32_t n = group_->members, me = group_->member;
  const int64_t width = dtype_bytes(reduction_->wire);
  const int64_t in_width = dtype_bytes(reduction_->in_type);
  const bool narrow = reduction_->wire != reduction_->in_type;
  const auto addends = [&](const Part& part) { return static_cast<const char*>(in) + part.begin * in_width; };
  const int64_t stride = chunk_elements() * width;
  char* const outgoing = slot(0);
  char* const incoming = narrow ? outgoing + n * stride : outgoing;
  const Part mine = range_of(me);
  for (int32_t m = 0; m < n; ++m) {
    const Part theirs = range_of(m);
    if (narrow)
      convert(outgoing + m * stride, reduction_->wire, addends(theirs), reduction_->in_type, theirs.count);
    in_at_[m] = narrow ? m * stride : theirs.begin * in_width;
    in_bytes_[m] = m == me ? 0 : theirs.count * width;
    out_at_[m] = m * stride;
    out_bytes_[m] = m == me ? 0 : mine.count * width;
    addends_[m] = incoming + m * stride;
  }
  addends_[me] = narrow ? static_cast<const void*>(outgoing + me * stride) : addends(mine);
  check_link(group_->link->all_to_all(incoming, out_at_.data(), out_bytes_.data(),
                                      narrow ? static_cast<const void*>(outgoing) : in, in_at_.data(),
                                      in_bytes_.data()));
  if (mine.count == 0) return;
  kernels_.ordered_sum({.out = out,
                        .in = addends_.data(),
                        .in_type = reduction_->wire,
                        .round_to = reduction_->round_to,
                        .members = n,
                        .sum_group = reduction_->sum_group,
                        .tree = reduction_->tree,
                        .accumulate = accumulate,
                        .n = mine.count},
                       stream_);
}

void DeviceCollectives::reduce_scatter(const Call& call) {
  const int64_t chunk = chunk_elements();
  const bool in_place = reduction_->out_type == DType::kF32;
  auto* const aside = reinterpret_cast<float*>(slot(group_->members));
  for (const ReducePiece& piece : call.reduce) {
    const int64_t share = piece.shard_elements;
    for (int64_t at = 0; at < share; at += chunk) {
      const auto range_of = [&](int32_t m) { return chunk_of(m * share, (m + 1) * share, at, chunk); };
      sum_part(piece.full, range_of, in_place ? static_cast<float*>(piece.shard) + at : aside,
               in_place && reduction_->accumulate);
      if (!in_place) place(piece.shard, at, aside, range_of(group_->member).count);
    }
  }
}

void DeviceCollectives::all_reduce(const Call& call) {
  const int64_t chunk = chunk_elements();
  const int32_t n = group_->members;
  auto* const finished = reinterpret_cast<float*>(slot(n));
  for (const AllReducePiece& piece : call.all_reduce) {
    const int64_t share = reduce_share(piece.elements, n);
    for (int64_t at = 0; at < share; at += chunk) {
      const auto range_of = [&](int32_t m) {
        return chunk_of(std::min(piece.elements, m * share), std::min(piece.elements, (m + 1) * share), at,
                        chunk);
      };
      sum_part(piece.in, range_of, finished, false);
      spread_part(piece.out, range_of);
    }
  }
}

/// The finished sum goes to all, theirs come, all as long as the first member's, which no other exceeds.
template <class Range>
void DeviceCollectives::spread_part(void* out, const Range& range_of) {
  const DType type = reduction_->round_to;
  const int32_t n = group_->members;
  const int64_t bytes = range_of(0).count * dtype_bytes(type);
  auto* const finished = reinterpret_cast<float*>(slot(n));
  const void* outgoing = finished;
  if (type != DType::kF32) {
    convert(slot(n + 1), type, finished, DType::kF32, range_of(group_->member).count);
    outgoing = slot(n + 1);
  }
  check_link(group_->link->all_gather(slot(0), outgoing, bytes));
  for (int32_t m = 0; m < n; ++m) {
    const Part theirs = range_of(m);
    const void* sum = slot(0) + m * bytes;
    if (type != DType::kF32) {
      convert(finished, DType::kF32, sum, type, theirs.count);
      sum = finished;
    }
    place(out, theirs.begin, static_cast<const float*>(sum), theirs.count);
  }
}

/// A finished sum to elements `at` and on of where it is wanted.
void DeviceCollectives::place(void* out, int64_t at, const float* sum, int64_t n) {
  const Reduction& r = *reduction_;
  void* const to = static_cast<char*>(out) + at * dtype_bytes(r.out_type);
  if (n == 0) return;
  if (r.out_type != DType::kF32)
    kernels_.convert({to, sum, r.out_type, DType::kF32, n, r.accumulate}, stream_);
  else if (r.accumulate)
    kernels_.add({static_cast<float*>(to), static_cast<float*>(to), sum, n}, stream_);
  else
    device::check(device_, device_.copy_inside(to, sum, n * kFloat, device::StreamId::kCommunication));
}

}  // namespace hawser::comm
