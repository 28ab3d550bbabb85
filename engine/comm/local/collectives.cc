#include "engine/comm/local/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/base/bytes_at.h"
#include "engine/comm/agreement.h"

namespace hawser::comm {
namespace {

/// Elements of an all_reduce that stay in the cache between the sum and the copy to all members.
constexpr int64_t kPart = 8192;
/// Elements of a sum, and bytes of a copy, between two checks for a fault.
constexpr int64_t kSumStep = int64_t{1} << 20, kCopyStep = int64_t{4} << 20;
/// Parts of one array start at whole records, and on separate cache lines, if the array is aligned.
constexpr int64_t kPartAlign = 64;
static_assert(kPartAlign % kIntBlock == 0 && kPart % kIntBlock == 0);

struct Range {
  int64_t begin = 0, end = 0;
};

/// Returns member `m`'s part of `elements`. Sums do not depend on how arrays are divided.
Range part_of(int64_t elements, int32_t m, int32_t members) {
  const int64_t share = (reduce_share(elements, members) + kPartAlign - 1) / kPartAlign * kPartAlign;
  return {std::min(elements, m * share), std::min(elements, (m + 1) * share)};
}

}  // namespace

LocalCollectives::LocalCollectives(Meeting& meeting, int32_t member, const kernels::KernelTable& kernels,
                                   const Fault& fault)
    : meeting_(meeting),
      me_(member),
      size_(meeting.size()),
      fault_(fault),
      sums_(kernels, stream_),
      addends_(static_cast<size_t>(size_)),
      scratch_(static_cast<size_t>(kPart)),
      records_(static_cast<size_t>(dtype_bytes(DType::kI8Block, std::max(kPart, size_ * kIntBlock)) / 2)),
      sums_of_runs_(static_cast<size_t>(kPart)) {}

void LocalCollectives::compare(const Call& call) const {
  const auto at = [&](int32_t m) {
    return CallAt{meeting_.members[m], of(m).sequence, meeting_.name, of(m).signature};
  };
  for (int32_t m = 1; m < size_; ++m)
    if (of(m).sequence != of(0).sequence) fail_elsewhere(at(0), at(m));
  check_agreement(meeting_.name, call.sequence, meeting_.members,
                  [&](int32_t m) -> const Signature& { return of(m).signature; });
  if (call.signature.own_sizes != 0) check_byte_counts(call);
}

void LocalCollectives::work(const Call& call) {
  switch (call.signature.operation) {
    case Operation::kAllGather:
      return all_gather(call);
    case Operation::kReduceScatter:
      return reduce_scatter(call);
    case Operation::kAllReduce:
      return all_reduce(call);
    case Operation::kAllReduceI64:
      return all_reduce_i64(call);
    case Operation::kAllToAll:
      return all_to_all(call);
    case Operation::kBroadcast:
      return copy(call.out, of(call.signature.root).out, call.bytes);
    default:
      return;  // a barrier is over once all members have entered it
  }
}

void LocalCollectives::all_gather(const Call& call) {
  for (size_t i = 0; i < call.gather.size(); ++i) {
    const GatherPiece& piece = call.gather[i];
    const int64_t bytes = piece.shard_elements * dtype_bytes(call.signature.type);
    // Each member starts at itself, so that members do not all read the same memory at once.
    for (int32_t k = 0; k < size_; ++k) {
      const int32_t m = (me_ + k) % size_;
      copy(bytes_at(piece.full, m * bytes), of(m).gather[i].shard, bytes);
    }
  }
}

void LocalCollectives::reduce_scatter(const Call& call) {
  const Reduction& r = call.reduction;
  const bool in_place = r.out_type == DType::kF32;
  const int64_t step = largest_part(r, in_place ? kSumStep : kPart);
  for (size_t i = 0; i < call.reduce.size(); ++i) {
    const ReducePiece& piece = call.reduce[i];
    for (int64_t at = 0; at < piece.shard_elements; at += step) {
      fault_.raise_if_set();
      const int64_t from = (me_ * piece.shard_elements + at) * dtype_bytes(r.in_type);
      for (int32_t m = 0; m < size_; ++m) addends_[m] = bytes_at(of(m).reduce[i].full, from);
      void* const to = bytes_at(piece.shard, at * dtype_bytes(r.out_type));
      const int64_t count = std::min(step, piece.shard_elements - at);
      sum(in_place ? static_cast<float*>(to) : scratch_.data(), r, in_place && r.accumulate, count);
      if (!in_place) sums_.place(to, scratch_.data(), r, count);
    }
  }
}

/// Returns the largest part of a sum: of addends in records, all members' must fit in records_.
int64_t LocalCollectives::largest_part(const Reduction& r, int64_t otherwise) const {
  if (!is_int_block(r.wire)) return otherwise;
  return std::max(kPart / size_ / kIntBlock * kIntBlock, kIntBlock);
}

/// Sums addends_.
void LocalCollectives::sum(float* out, const Reduction& r, bool accumulate, int64_t n) {
  if (is_int_block(r.wire)) return sum_in_records(out, r, accumulate, n);
  sums_.add(out, addends_.data(), size_, r, accumulate, n);
}

/// Encodes the addends, and the subgroups' sums, as members of different processes do before they send them.
/// A subgroup's sum overwrites addends that have been added.
void LocalCollectives::sum_in_records(float* out, const Reduction& r, bool accumulate, int64_t n) {
  const int64_t bytes = dtype_bytes(r.wire, n);
  const auto record = [&](int32_t m) { return bytes_at(records_.data(), m * bytes); };
  for (int32_t m = 0; m < size_; ++m) {
    sums_.convert(record(m), r.wire, addends_[m], DType::kF32, n);
    addends_[m] = record(m);
  }
  int32_t members = size_;
  if (in_two_hops(size_, r)) {
    const Reduction of_run = {.wire = r.wire, .in_type = r.wire};
    members = size_ / r.sum_group;
    for (int32_t run = 0; run < members; ++run) {
      sums_.add(sums_of_runs_.data(), addends_.data() + run * r.sum_group, r.sum_group, of_run, false, n);
      sums_.convert(record(run), r.wire, sums_of_runs_.data(), DType::kF32, n);
    }
  }
  sums_.add(out, addends_.data(), members, {.wire = r.wire, .round_to = r.round_to, .in_type = r.wire},
            accumulate, n);
}

void LocalCollectives::all_reduce(const Call& call) {
  for (size_t i = 0; i < call.all_reduce.size(); ++i) {
    const Range mine = part_of(call.all_reduce[i].elements, me_, size_);
    const int64_t step = largest_part(call.reduction, kPart);
    for (int64_t at = mine.begin; at < mine.end; at += step) {
      fault_.raise_if_set();
      all_reduce_part(call, i, at, std::min(step, mine.end - at));
    }
  }
}

/// Only this member reads [begin, begin + count) of every member's `in`, so it may write there into every
/// member's `out`.
void LocalCollectives::all_reduce_part(const Call& call, size_t piece, int64_t begin, int64_t count) {
  const int64_t from = begin * dtype_bytes(call.reduction.in_type);
  const auto out_of = [&](const Call& c) {
    return bytes_at(c.all_reduce[piece].out, begin * dtype_bytes(c.reduction.out_type));
  };
  bool aside = call.reduction.out_type != DType::kF32;
  for (int32_t m = 0; m < size_; ++m) {
    addends_[m] = bytes_at(of(m).all_reduce[piece].in, from);
    aside |= of(m).reduction.accumulate;
  }
  float* finished = aside ? scratch_.data() : reinterpret_cast<float*>(out_of(call));
  sum(finished, call.reduction, false, count);
  for (int32_t m = 0; m < size_; ++m) sums_.place(out_of(of(m)), finished, of(m).reduction, count);
}

void LocalCollectives::all_reduce_i64(const Call& call) {
  const Range mine = part_of(call.bytes, me_, size_);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    uint64_t total = 0;  // wraps like two's complement, without undefined behaviour
    for (int32_t m = 0; m < size_; ++m) total += static_cast<uint64_t>(static_cast<int64_t*>(of(m).out)[i]);
    for (int32_t m = 0; m < size_; ++m) static_cast<int64_t*>(of(m).out)[i] = static_cast<int64_t>(total);
  }
}

void LocalCollectives::all_to_all(const Call& call) {
  if (call.signature.own_sizes == 0) {
    for (int32_t k = 0; k < size_; ++k) {
      const int32_t m = (me_ + k) % size_;
      copy(bytes_at(call.out, m * call.bytes), bytes_at(of(m).in, me_ * call.bytes), call.bytes);
    }
    return;
  }
  int64_t at = 0;
  for (int32_t m = 0; m < size_; ++m) {
    const Call& other = of(m);
    const int64_t offset = std::accumulate(other.in_bytes.begin(), other.in_bytes.begin() + me_, int64_t{0});
    copy(bytes_at(call.out, at), bytes_at(other.in, offset), call.out_bytes[m]);
    at += call.out_bytes[m];
  }
}

/// Checks all pairs, so that the reported mismatch does not depend on which member compares.
void LocalCollectives::check_byte_counts(const Call& call) const {
  for (int32_t from = 0; from < size_; ++from) {
    for (int32_t to = 0; to < size_; ++to) {
      const int64_t sent = of(from).in_bytes[to], expected = of(to).out_bytes[from];
      if (sent == expected) continue;
      fail_bytes(Operation::kAllToAll, meeting_.name, call.sequence, meeting_.members[from], sent,
                 meeting_.members[to], expected);
    }
  }
}

void LocalCollectives::copy(void* to, const void* from, int64_t bytes) const {
  if (to == from) return;
  for (int64_t at = 0; at < bytes; at += kCopyStep) {
    fault_.raise_if_set();
    std::memcpy(bytes_at(to, at), bytes_at(from, at), static_cast<size_t>(std::min(kCopyStep, bytes - at)));
  }
}

}  // namespace hawser::comm
