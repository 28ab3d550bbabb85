#include "engine/comm/ordered_sums.h"

#include <algorithm>

#include "engine/base/bytes_at.h"
#include "engine/comm/call.h"
#include "engine/comm/comm.h"
#include "engine/comm/link_topology.h"

namespace hawser::comm {
namespace {

constexpr int64_t kChunkAlign = 64, kFloatBytes = sizeof(float);
static_assert(kChunkAlign % kIntBlock == 0, "chunks begin at whole records");
/// Larger arrays are divided into chunks of this size on devices, which is enough to keep a fast link busy.
constexpr int64_t kMostStaging = int64_t{64} << 20;

}  // namespace

bool in_two_hops(int64_t members, const Reduction& r) {
  return !r.tree && r.sum_group > 1 && r.sum_group < members;
}

void SumKernels::add(float* out, const void* const* addends, int32_t members, const Reduction& r,
                     bool accumulate, int64_t n) const {
  if (n == 0) return;
  kernels_.ordered_sum({.out = out,
                        .in = addends,
                        .in_type = r.in_type,
                        .round_in = r.in_type == DType::kF32 ? r.wire : DType::kF32,
                        .round_to = r.round_to,
                        .members = members,
                        .sum_group = r.sum_group,
                        .tree = r.tree,
                        .accumulate = accumulate,
                        .n = n},
                       stream_);
}

void SumKernels::place(void* out, const float* sum, const Reduction& r, int64_t n) const {
  if (n == 0) return;
  if (r.accumulate && r.out_type == DType::kF32)
    kernels_.add({static_cast<float*>(out), static_cast<float*>(out), sum, n}, stream_);
  else
    kernels_.convert({out, sum, r.out_type, DType::kF32, n, r.accumulate}, stream_);
}

void SumKernels::convert(void* to, DType to_type, const void* from, DType from_type, int64_t n) const {
  if (n == 0) return;
  if (!is_int_block(to_type)) return kernels_.convert({to, from, to_type, from_type, n}, stream_);
  if (from_type == DType::kF32) return kernels_.block_encode({to, to_type, from, from_type, n}, stream_);
  // Records have an even number of bytes. A host's kernel copies equal types.
  kernels_.convert({to, from, DType::kBf16, DType::kBf16, dtype_bytes(to_type, n) / 2}, stream_);
}

int64_t sum_slots(int64_t members, const Reduction& reduction) {
  return members * (in_two_hops(members, reduction) ? 2 : 1) + 2;
}

int64_t device_staging_bytes(int64_t shard_elements, int64_t members, const Reduction& reduction) {
  const int64_t slots = sum_slots(members, reduction);
  const int64_t most = std::max(kMostStaging / kFloatBytes / slots / kChunkAlign * kChunkAlign, kChunkAlign);
  return slots * std::min((shard_elements + kChunkAlign - 1) / kChunkAlign * kChunkAlign, most) * kFloatBytes;
}

OrderedSums::OrderedSums(RowExchange& exchange, const SumKernels& kernels, float* staging, int64_t floats,
                         int32_t world_size)
    : exchange_(exchange),
      kernels_(kernels),
      staging_(staging),
      floats_(floats),
      addends_(static_cast<size_t>(world_size)),
      sent_(static_cast<size_t>(world_size)),
      received_(static_cast<size_t>(world_size)),
      chunks_(static_cast<size_t>(world_size)),
      at_(static_cast<size_t>(world_size)) {}

void OrderedSums::begin(const Reduction& r, int32_t members, int32_t member) {
  r_ = r;
  members_ = members;
  me_ = member;
  runs_ = in_runs_of(in_two_hops(members, r) ? r.sum_group : members);
  grid_ = runs_.count > 1 ? runs_ : in_runs_of(row_of_grid(members));
}

/// Divides the staging buffer for a sum in which each owner has `share` elements. For relayed addends it has
/// three parts: those sent to mates, those received from mates, and those passed on.
void OrderedSums::divide_staging(int64_t share) {
  const int64_t message = dtype_bytes(r_.wire, share);
  relays_ = runs_.count == 1 && grid_.count > 1 && message <= exchange_.most_relayed_bytes();
  slots_ = relays_ ? 3 * int64_t{members_} + 2 : sum_slots(members_, r_);
  chunk_ = floats_ / slots_ / kChunkAlign * kChunkAlign;
}

/// Selects the chunk that starts at `at` in every owner's share.
void OrderedSums::cut(int64_t elements, int64_t share, int64_t at) {
  for (int32_t m = 0; m < members_; ++m) {
    const int64_t begin = std::min(elements, m * share), end = std::min(elements, (m + 1) * share);
    chunks_[m] = {begin + at, std::clamp<int64_t>(end - begin - at, 0, chunk_)};
  }
}

void OrderedSums::reduce_scatter(std::span<const ReducePiece> pieces, const Reduction& r, int32_t members,
                                 int32_t member) {
  begin(r, members, member);
  const bool in_place = r.out_type == DType::kF32;
  for (const ReducePiece& piece : pieces) {
    const int64_t share = piece.shard_elements;
    divide_staging(share);
    for (int64_t at = 0; at < share; at += chunk_) {
      cut(members * share, share, at);
      sum_part(piece.full, in_place ? static_cast<float*>(piece.shard) + at : finished(),
               in_place && r.accumulate);
      if (!in_place) place(piece.shard, at, finished(), chunks_[me_].count);
    }
  }
}

void OrderedSums::all_reduce(std::span<const AllReducePiece> pieces, const Reduction& r, int32_t members,
                             int32_t member) {
  begin(r, members, member);
  for (const AllReducePiece& piece : pieces) {
    const int64_t share = reduce_share(piece.elements, members, r.wire);
    divide_staging(share);
    for (int64_t at = 0; at < share; at += chunk_) {
      cut(piece.elements, share, at);
      sum_part(piece.in, finished(), false);
      spread_part(piece.out);
    }
  }
}

/// Computes the sum over members of this member's part of `in`.
void OrderedSums::sum_part(const void* in, float* out, bool accumulate) {
  if (runs_.count > 1) return sum_runs(in, out, accumulate);
  if (relays_) return sum_relayed(in, out, accumulate);
  sum_directly(in, out, accumulate);
}

/// Narrow addends are at most half as wide as a slot's elements: outgoing addends use the first half of the
/// members' slots, incoming addends the second.
void OrderedSums::sum_directly(const void* in, float* out, bool accumulate) {
  const int64_t in_width = dtype_bytes(r_.in_type), stride = dtype_bytes(r_.wire, chunk_);
  const bool narrow = r_.wire != r_.in_type;
  char* const packed = bytes_at(slot(0), 0);
  char* const incoming = narrow ? packed + members_ * stride : packed;
  for (int32_t m = 0; m < members_; ++m) {
    const Chunk& chunk = chunks_[m];
    if (narrow)
      kernels_.convert(packed + m * stride, r_.wire, bytes_at(in, chunk.begin * in_width), r_.in_type,
                       chunk.count);
    sent_.at[m] = narrow ? m * stride : chunk.begin * in_width;
    sent_.bytes[m] = m == me_ ? 0 : dtype_bytes(r_.wire, chunk.count);
    received_.at[m] = m * stride;
    received_.bytes[m] = m == me_ ? 0 : dtype_bytes(r_.wire, chunks_[me_].count);
    addends_[m] = incoming + m * stride;
  }
  const char* const outgoing = narrow ? packed : bytes_at(in, 0);
  addends_[me_] = outgoing + sent_.at[me_];
  exchange_.all_to_all({0, 1, members_}, incoming, received_, outgoing, sent_);
  Reduction arrived = r_;
  arrived.in_type = r_.wire;
  kernels_.add(out, addends_.data(), members_, arrived, accumulate, chunks_[me_].count);
}

/// Sums first over this subgroup, for all owners with this seat, then over the subgroups, for this owner.
/// Addends are sent in the wire type, the subgroups' sums in f32, so they are not rounded, or in records. The
/// sums use the last slots of the outgoing addends, which narrow addends do not reach; sums in records follow
/// those addends.
void OrderedSums::sum_runs(const void* in, float* out, bool accumulate) {
  const DType hop = type_of_sums(r_);
  const int64_t width = dtype_bytes(r_.in_type), stride = runs_.count * dtype_bytes(r_.wire, chunk_);
  const int64_t sum_stride = dtype_bytes(hop, chunk_);
  const bool narrow = r_.wire != r_.in_type;
  char* const packed = bytes_at(slot(0), 0);
  char* const incoming = bytes_at(slot(members_), 0);
  send_to_mates(runs_, in, packed, incoming);
  float* const sum = slot(members_ - runs_.count);
  char* const outgoing = hop == DType::kF32 ? bytes_at(sum, 0) : packed + runs_.size * stride;
  no_messages();
  int64_t at = 0, from = 0, end = 0;  // element of the sums, byte of a mate's addends, byte of the sums sent
  for (int32_t run = 0; run < runs_.count; ++run) {
    const int32_t owner = runs_.member(run, runs_.seat);
    const Chunk& chunk = chunks_[owner];
    for (int32_t s = 0; s < runs_.size; ++s) addends_[s] = incoming + s * stride + from;
    addends_[runs_.seat] = narrow ? packed + runs_.seat * stride + from : bytes_at(in, chunk.begin * width);
    kernels_.add(sum + at, addends_.data(), runs_.size, {.wire = r_.wire, .in_type = r_.wire}, false,
                 chunk.count);
    if (hop != DType::kF32) kernels_.convert(outgoing + end, hop, sum + at, DType::kF32, chunk.count);
    sent_.at[owner] = end;
    sent_.bytes[owner] = run == runs_.run ? 0 : dtype_bytes(hop, chunk.count);
    received_.at[owner] = run * sum_stride;
    received_.bytes[owner] = run == runs_.run ? 0 : dtype_bytes(hop, chunks_[me_].count);
    at += chunk.count, from += dtype_bytes(r_.wire, chunk.count), end += dtype_bytes(hop, chunk.count);
  }
  exchange_.all_to_all(runs_.seats(), incoming, received_, outgoing, sent_);
  for (int32_t run = 0; run < runs_.count; ++run) addends_[run] = incoming + run * sum_stride;
  addends_[runs_.run] = outgoing + sent_.at[me_];
  kernels_.add(out, addends_.data(), runs_.count, {.wire = hop, .round_to = r_.round_to, .in_type = hop},
               accumulate, chunks_[me_].count);
}

/// Sends each mate in a subgroup the addends for all owners with its seat, one after the other. This member's
/// own addends are packed too if they must be rounded.
void OrderedSums::send_to_mates(const Runs& runs, const void* in, char* packed, char* incoming) {
  const int64_t in_width = dtype_bytes(r_.in_type), stride = runs.count * dtype_bytes(r_.wire, chunk_);
  no_messages();
  for (int32_t s = 0; s < runs.size; ++s) {
    if (s == runs.seat && r_.wire == r_.in_type) continue;
    char* to = packed + s * stride;
    for (int32_t run = 0; run < runs.count; ++run) {
      const Chunk& chunk = chunks_[runs.member(run, s)];
      kernels_.convert(to, r_.wire, bytes_at(in, chunk.begin * in_width), r_.in_type, chunk.count);
      to += dtype_bytes(r_.wire, chunk.count);
    }
    if (s == runs.seat) continue;
    const int32_t mate = runs.member(runs.run, s);
    sent_.at[mate] = received_.at[mate] = s * stride;
    sent_.bytes[mate] = bytes_of_seat(runs, s, r_.wire);
    received_.bytes[mate] = bytes_of_seat(runs, runs.seat, r_.wire);
  }
  exchange_.all_to_all(runs.mates(), incoming, received_, packed, sent_);
}

/// Makes the same additions as sum_directly, of the same addends in the same order: each member passes the
/// addends of its subgroup on to the owners with its seat.
void OrderedSums::sum_relayed(const void* in, float* out, bool accumulate) {
  const int64_t width = dtype_bytes(r_.in_type), stride = grid_.count * dtype_bytes(r_.wire, chunk_);
  const int64_t mine = dtype_bytes(r_.wire, chunks_[me_].count);
  const bool narrow = r_.wire != r_.in_type;
  char* const packed = bytes_at(slot(0), 0);
  char* const incoming = bytes_at(slot(members_), 0);
  char* const passed = bytes_at(slot(2 * members_), 0);
  send_to_mates(grid_, in, packed, incoming);
  no_messages();
  int64_t at = 0, end = 0;
  for (int32_t run = 0; run < grid_.count; ++run) {
    const int32_t owner = grid_.member(run, grid_.seat);
    const Chunk& chunk = chunks_[owner];
    const int64_t bytes = dtype_bytes(r_.wire, chunk.count);
    sent_.at[owner] = end;
    for (int32_t s = 0; s < grid_.size; ++s, end += bytes) {
      const char* from = s != grid_.seat ? incoming + s * stride + at
                         : narrow        ? packed + s * stride + at
                                         : bytes_at(in, chunk.begin * width);
      kernels_.convert(passed + end, r_.wire, from, r_.wire, chunk.count);
    }
    sent_.bytes[owner] = run == grid_.run ? 0 : grid_.size * bytes;
    received_.at[owner] = run * grid_.size * mine;
    received_.bytes[owner] = run == grid_.run ? 0 : grid_.size * mine;
    at += bytes;
  }
  exchange_.all_to_all(grid_.seats(), packed, received_, passed, sent_);
  for (int32_t m = 0; m < members_; ++m) {
    const bool own_run = m / grid_.size == grid_.run;
    const char* const run = own_run ? passed + sent_.at[me_] : packed + m / grid_.size * grid_.size * mine;
    addends_[m] = run + m % grid_.size * mine;
  }
  Reduction arrived = r_;
  arrived.in_type = r_.wire;
  kernels_.add(out, addends_.data(), members_, arrived, accumulate, chunks_[me_].count);
}

/// Sends the finished sum to all members, receives theirs, and writes each to `out` or adds it.
void OrderedSums::spread_part(void* out) {
  const DType type = r_.round_to;
  const int64_t width = dtype_bytes(type);
  const void* own = finished();
  if (type != DType::kF32) {
    own = slot(slots_ - 1);
    kernels_.convert(slot(slots_ - 1), type, finished(), DType::kF32, chunks_[me_].count);
  }
  char* const all = bytes_at(slot(0), 0);
  const int64_t most = chunks_[0].count * width;  // the first owner has the largest part
  if (exchange_.all_gather(all, own, most)) {
    for (int32_t m = 0; m < members_; ++m) at_[m] = m * most;
  } else {
    spread_by_runs(all, own);
  }
  for (int32_t m = 0; m < members_; ++m) {
    const Chunk& chunk = chunks_[m];
    const void* sum = all + at_[m];
    if (type != DType::kF32) {
      kernels_.convert(finished(), DType::kF32, sum, type, chunk.count);
      sum = finished();
    }
    place(out, chunk.begin, static_cast<const float*>(sum), chunk.count);
  }
}

/// The owners with one seat exchange their sums, then each sends its mates all sums of its seat, one after
/// the other.
void OrderedSums::spread_by_runs(char* all, const void* own) {
  const int64_t width = dtype_bytes(r_.round_to), mine = chunks_[me_].count * width;
  int64_t at = 0;
  for (int32_t s = 0; s < grid_.size; ++s)
    for (int32_t run = 0; run < grid_.count; ++run) {
      const int32_t owner = grid_.member(run, s);
      at_[owner] = at;
      at += chunks_[owner].count * width;
    }
  kernels_.convert(all + at_[me_], r_.round_to, own, r_.round_to, chunks_[me_].count);
  no_messages();
  for (int32_t run = 0; run < grid_.count; ++run) {
    const int32_t owner = grid_.member(run, grid_.seat);
    if (owner == me_) continue;
    sent_.at[owner] = at_[me_], sent_.bytes[owner] = mine;
    received_.at[owner] = at_[owner], received_.bytes[owner] = chunks_[owner].count * width;
  }
  if (grid_.count > 1) exchange_.all_to_all(grid_.seats(), all, received_, all, sent_);
  no_messages();
  for (int32_t s = 0; s < grid_.size; ++s) {
    const int32_t mate = grid_.member(grid_.run, s);
    if (mate == me_) continue;
    sent_.at[mate] = at_[grid_.member(0, grid_.seat)],
    sent_.bytes[mate] = bytes_of_seat(grid_, grid_.seat, r_.round_to);
    received_.at[mate] = at_[grid_.member(0, s)];
    received_.bytes[mate] = bytes_of_seat(grid_, s, r_.round_to);
  }
  exchange_.all_to_all(grid_.mates(), all, received_, all, sent_);
}

void OrderedSums::place(void* out, int64_t at, const float* sum, int64_t n) {
  kernels_.place(bytes_at(out, at * dtype_bytes(r_.out_type)), sum, r_, n);
}

void OrderedSums::no_messages() {
  for (Messages* m : {&sent_, &received_}) std::fill_n(m->bytes.begin(), members_, 0);
}

/// Returns the bytes of the chunk's elements whose owners have this seat, one owner's after the other's.
int64_t OrderedSums::bytes_of_seat(const Runs& runs, int32_t seat, DType type) const {
  int64_t bytes = 0;
  for (int32_t run = 0; run < runs.count; ++run)
    bytes += dtype_bytes(type, chunks_[runs.member(run, seat)].count);
  return bytes;
}

}  // namespace hawser::comm
