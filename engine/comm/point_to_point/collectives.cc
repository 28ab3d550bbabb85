#include "engine/comm/point_to_point/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/base/bytes_at.h"
#include "engine/comm/agreement.h"
#include "engine/comm/comm.h"
#include "engine/comm/shm/shared_ring.h"

namespace hawser::comm {
namespace {

/// A message between processes takes some 15 us of CPU time, as much as tens of kB over the loopback.
constexpr int64_t kMostRelayedBytes = 8 << 10;

void move(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memmove(to, from, static_cast<size_t>(bytes));
}

int64_t sum_before(std::span<const int64_t> sizes, int32_t end) {
  return std::accumulate(sizes.begin(), sizes.begin() + end, int64_t{0});
}

}  // namespace

int64_t process_transport_bytes(int32_t world_size) {
  constexpr int64_t kBytes = int64_t{8} << 20, kLeastChunk = 1024;
  const int64_t staging = std::max(kBytes, (int64_t{world_size} + 2) * kLeastChunk * int64_t{sizeof(float)});
  return staging + rings_bytes(world_size);
}

PeerCollectives::PeerCollectives(Link& link, Staging& staging, const kernels::KernelTable& kernels,
                                 const Fault& fault, int32_t world_size)
    : link_(link),
      staging_(staging),
      fault_(fault),
      sums_(*this, {kernels, stream_}, staging.floats.data(), std::ssize(staging.floats), world_size),
      told_(static_cast<size_t>(world_size)),
      heard_(static_cast<size_t>(world_size)) {}

void PeerCollectives::run(const PeerGroup& group, const Call& call, double deadline, double timeout_seconds) {
  begin_call(group, call, deadline, timeout_seconds);
  const Operation operation = call.signature.operation;
  if (operation == Operation::kSend) return send();
  if (operation == Operation::kRecv) return recv();
  switch (operation) {
    case Operation::kAllGather:
      return all_gather();
    case Operation::kReduceScatter:
      return sums_.reduce_scatter(call.reduce, call.reduction, group.size(), group.member);
    case Operation::kAllReduce:
      return sums_.all_reduce(call.all_reduce, call.reduction, group.size(), group.member);
    case Operation::kAllReduceI64:
      return all_reduce_i64();
    case Operation::kAllToAll:
      return all_to_all();
    case Operation::kBroadcast:
      return broadcast(call_->out, call_->bytes, call_->signature.root);
    default:
      return barrier();
  }
}

/// Dissemination barrier: it is complete once, in each step s, every member has received from the member 2^s
/// before it.
void PeerCollectives::barrier() {
  const int32_t n = group_->size(), me = group_->member;
  for (int32_t step = 1; step < n; step *= 2) {
    send_tag((me + step) % n);
    recv_tag((me - step + n) % n);
  }
}

void PeerCollectives::send() { swap_messages(call_->peer, {&tag_, tag_size(), call_->in, call_->bytes}, {}); }

void PeerCollectives::recv() {
  swap_messages(call_->peer, {},
                {&arrived_, tag_size(), call_->out, call_->bytes, &PeerCollectives::fits, this});
}

void PeerCollectives::all_gather() {
  for (const GatherPiece& piece : call_->gather) {
    const int64_t bytes = piece.shard_elements * dtype_bytes(call_->signature.type);
    move(bytes_at(piece.full, group_->member * bytes), piece.shard, bytes);
    if (group_->pairs == LinkTopology::kTree) {
      gather_by_tree(piece.full, bytes);
      continue;
    }
    gather_in_runs(piece.full, bytes);
  }
}

/// Members exchange their shards within rows of a grid, then each sends its row's shards to one member of
/// each other row.
void PeerCollectives::gather_in_runs(void* full, int64_t shard_bytes) {
  const int32_t n = group_->size(), me = group_->member;
  const int32_t run = row_of_grid(n);
  const int32_t first = me / run * run;
  const auto of = [&](int32_t m) { return bytes_at(full, m * shard_bytes); };
  for_each_partner({first, 1, run},
                   [&](int32_t m) { exchange(m, of(me), shard_bytes, of(m), shard_bytes, true); });
  for_each_partner({me % run, run, n / run}, [&](int32_t m) {
    exchange(m, of(first), run * shard_bytes, of(m / run * run), run * shard_bytes, true);
  });
}

/// Gathers along a binomial tree to member 0, in which each member passes on everything that it has, and then
/// broadcasts along another tree.
void PeerCollectives::gather_by_tree(void* full, int64_t shard_bytes) {
  const int32_t n = group_->size(), me = group_->member;
  for (int32_t step = 1; step < n; step *= 2) {
    const int32_t from = me % (2 * step) == 0 ? me + step : me;  // the first member whose shard is sent
    const int64_t bytes = std::min(step, n - from) * shard_bytes;
    if (from != me && from < n) {
      exchange(from, nullptr, 0, bytes_at(full, from * shard_bytes), bytes);
    } else if (from == me) {
      exchange(me - step, bytes_at(full, me * shard_bytes), bytes, nullptr, 0);
      break;
    }
  }
  broadcast(full, n * shard_bytes, 0);
}

/// Broadcasts along a binomial tree: in step s, members that have the data send it to the member 2^s further
/// from the root.
void PeerCollectives::broadcast(void* data, int64_t bytes, int32_t root) {
  const int32_t n = group_->size();
  const int32_t place = (group_->member - root + n) % n;
  const auto member_at = [&](int32_t p) { return (p + root) % n; };
  for (int32_t step = 1; step < n; step *= 2) {
    if (place < step && place + step < n) {
      exchange(member_at(place + step), data, bytes, nullptr, 0);
    } else if (place >= step && place < 2 * step) {
      exchange(member_at(place - step), nullptr, 0, data, bytes);
    }
  }
}

void PeerCollectives::all_to_all() {
  const bool own_sizes = call_->signature.own_sizes != 0;
  const auto in_size = [&](int32_t m) { return own_sizes ? call_->in_bytes[m] : call_->bytes; };
  const auto out_size = [&](int32_t m) { return own_sizes ? call_->out_bytes[m] : call_->bytes; };
  const auto in_at = [&](int32_t m) {
    return bytes_at(call_->in, own_sizes ? sum_before(call_->in_bytes, m) : m * call_->bytes);
  };
  const auto out_at = [&](int32_t m) {
    return bytes_at(call_->out, own_sizes ? sum_before(call_->out_bytes, m) : m * call_->bytes);
  };
  const int32_t me = group_->member;
  if (in_size(me) != out_size(me)) {
    fail_bytes(Operation::kAllToAll, group_->name, call_->sequence, link_.rank(), in_size(me), link_.rank(),
               out_size(me));
  }
  move(out_at(me), in_at(me), in_size(me));
  for_each_partner(all(),
                   [&](int32_t m) { exchange(m, in_at(m), in_size(m), out_at(m), out_size(m), true); });
}

int64_t PeerCollectives::most_relayed_bytes() const { return kMostRelayedBytes; }

void PeerCollectives::all_to_all(const Row& row, char* in, const Messages& received, const char* out,
                                 const Messages& sent) {
  for_each_partner(row, [&](int32_t m) {
    exchange(m, out + sent.at[m], sent.bytes[m], in + received.at[m], received.bytes[m], true);
  });
}

}  // namespace hawser::comm
