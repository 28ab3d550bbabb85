// BlockWire: a transport for the exchanges inside a block, which are collectives of the ranks that compute
// the block together. When a call returns, the context's stream may use its result, unless the call was begun
// with begin_next to be finished later. Over host transports, only sums, shifts and all_to_all_v can be begun
// that way. tensor_parallel.h lists the exchanges that a module needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/exchange_note.h"
#include "engine/base/fiber_pair.h"
#include "engine/comm/process_group.h"
#include "engine/device/host_link.h"

namespace hawser::parallel {

class BlockWire {
 public:
  virtual ~BlockWire() = default;
  int64_t rank() const { return rank_; }
  int64_t ranks() const { return ranks_; }
  /// Maximum bytes that one call reads and writes in memory.
  int64_t most_bytes() const { return most_bytes_; }
  /// Announces that later calls may be as large as this.
  void expect(int64_t bytes) { most_bytes_ = std::max(most_bytes_, bytes); }
  /// Maximum device memory that one call needs for its sum between devices.
  int64_t most_sum_bytes() const { return most_sum_bytes_; }

  /// Replaces data[elements] by its sum over ranks, computed in f32. Addends and sum are of `type`: f32 or
  /// bf16.
  void all_reduce(void* data, DType type, int64_t elements);
  /// Fills full[ranks][elements] from `shard`[elements] of each rank, which may already lie at its place in
  /// `full`.
  void all_gather(void* full, const void* shard, DType type, int64_t elements);
  /// Computes shard[elements], this rank's part of the sum over ranks of full[ranks][elements], in f32.
  void reduce_scatter(float* shard, const float* full, int64_t elements);
  /// Sends `out`[elements] to the next rank and fills `in`[elements] from the previous one, around the ring.
  void shift(void* in, const void* out, DType type, int64_t elements);
  /// Copies rank s's out[r][elements] to rank r's in[s][elements].
  void all_to_all(void* in, const void* out, DType type, int64_t elements);
  /// Like all_to_all, with individual sizes in bytes, contiguous by rank.
  void all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                    const std::vector<int64_t>& out_bytes);
  /// All-gathers integers that the host reads when the call returns. It waits for the context's stream.
  /// `full` is device memory and may stay unwritten; `host` is pinned memory of the same size, or `full` if
  /// the host can access it.
  void gather_to_host(int32_t* host, int32_t* full, const int32_t* shard, int64_t elements);
  /// Copies data[elements] of rank `root` to all ranks.
  void broadcast(void* data, DType type, int64_t elements, int64_t root);

  /// Makes the next call return when its transfer has begun. Until `finish`, the data that it sends may only
  /// be read, and its other memory must not be used. Until then, only sums may follow, each also after a
  /// begin_next; at most kMostBegun calls in all.
  void begin_next() { begins_ = true; }
  static constexpr size_t kMostBegun = 64;
  /// True in a dry run: no data is transferred, so receive buffers must not be read.
  virtual bool dry() const { return false; }
  /// In a dry run: the rows that go to the experts of this rank, which is the busiest, over the mean of all
  /// ranks.
  virtual double imbalance() const { return 1; }
  /// Completes all calls that were begun.
  void finish();

  // A call of all_to_all_v that was begun may also be finished by finish_overlapped. Further calls may then
  // be begun before it; the last finish completes all of them.

  /// Yields to the other task of an overlapped pair first, if there is one.
  void finish_overlapped();
  /// Returns the seconds for which the host has waited in `finish` and `finish_overlapped` since the last
  /// call of take_waited.
  double take_waited() { return std::exchange(waited_, 0); }
  /// Waits until the call that was begun is over, with or without errors. Used by a rank that aborts.
  void settle() noexcept;
  /// Sets the task switcher of a rank whose plan has overlapped instructions. It must outlive the wire.
  void overlap_with(FiberPair* fibers) { fibers_ = fibers; }

 protected:
  BlockWire(int64_t rank, int64_t ranks) : rank_(rank), ranks_(ranks) {}
  virtual void carry_all_reduce(void* data, DType type, int64_t elements) = 0;
  virtual void carry_all_gather(void* full, const void* shard, DType type, int64_t elements) = 0;
  virtual void carry_reduce_scatter(float* shard, const float* full, int64_t elements) = 0;
  virtual void carry_shift(void* in, const void* out, int64_t bytes) = 0;
  virtual void carry_all_to_all(void* in, const void* out, int64_t bytes) = 0;
  virtual void carry_all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                                  const std::vector<int64_t>& out_bytes) = 0;
  virtual void carry_gather_to_host(int32_t* host, int32_t* full, const int32_t* shard, int64_t elements) = 0;
  virtual void carry_broadcast(void* data, int64_t bytes, int64_t root) = 0;
  virtual void carry_finish(comm::Work /*call*/) {}
  void await(comm::Work call);
  /// True if the call is to be finished later. Resets the flag, so use it once per call.
  bool begins() { return std::exchange(begins_, false); }
  /// Records a call that is to be finished later.
  void has_begun(comm::Work call) { begun_ = call; }
  /// Called before each call with the bytes that this rank sends by the operation's ring form
  /// (comm/ledger.h).
  virtual void note(comm::Operation, int64_t /*sent*/) {}

 private:
  void count(comm::Operation operation, int64_t sent, int64_t bytes);

  int64_t rank_, ranks_;
  int64_t most_bytes_ = 0, most_sum_bytes_ = 0;
  bool begins_ = false;
  comm::Work begun_;
  double waited_ = 0;
  FiberPair* fibers_ = nullptr;
};

/// Implements a shift as one call of all members in which a rank sends bytes to one other member.
class RingBytes {
 public:
  RingBytes(int64_t rank, int64_t ranks);
  /// Sends `out`[bytes] to the next rank, and fills `in` from the previous one.
  comm::Work shift(comm::ProcessGroup* group, void* in, const void* out, int64_t bytes);

 private:
  int64_t next_, previous_;
  std::vector<int64_t> to_next_, from_previous_;  // by member
};

/// A wire for dry runs, which transfers nothing.
class CountingWire final : public BlockWire {
 public:
  explicit CountingWire(int64_t ranks, int64_t rank = 0) : BlockWire(rank, ranks) {}
  /// Records every exchange as one of `group`. Both must outlive the wire. `beside`: a call that is begun is
  /// carried out while the rank computes.
  CountingWire(int64_t ranks, const char* group, ExchangeNotes* notes, bool beside = true,
               double imbalance = 1)
      : BlockWire(0, ranks), group_(group), notes_(notes), beside_(beside), imbalance_(imbalance) {}

  bool dry() const override { return true; }
  double imbalance() const override { return imbalance_; }

 private:
  void note(comm::Operation operation, int64_t sent) override {
    if (notes_ && ranks() > 1) notes_->add(group_, comm::operation_name(operation), sent);
  }
  void carry_all_reduce(void*, DType, int64_t) override { begin_beside(); }
  void carry_all_gather(void*, const void*, DType, int64_t) override {}
  void carry_reduce_scatter(float*, const float*, int64_t) override { begin_beside(); }
  void carry_shift(void*, const void*, int64_t) override { begin_beside(); }
  void carry_all_to_all(void*, const void*, int64_t) override {}
  void carry_all_to_all_v(void*, const std::vector<int64_t>&, const void*,
                          const std::vector<int64_t>&) override {
    if (begins() && notes_ && !notes_->list.empty()) notes_->list.back().beside = beside_;
  }
  void carry_finish(comm::Work) override {
    if (notes_) notes_->await();
  }
  void begin_beside() {
    if (begins() && notes_ && beside_ && ranks() > 1) notes_->begun();
  }
  void carry_gather_to_host(int32_t*, int32_t*, const int32_t*, int64_t) override {}
  void carry_broadcast(void*, int64_t, int64_t) override {}

  const char* group_ = "";
  ExchangeNotes* notes_ = nullptr;
  bool beside_ = true;
  double imbalance_ = 1;
};

/// A wire between devices, over a process group of devices (DeviceUse::by_issuer). Errors are thrown when its
/// DeviceComm is waited for.
class DeviceWire final : public BlockWire {
 public:
  /// `group` and `link` must outlive the wire.
  DeviceWire(comm::ProcessGroup* group, device::HostLink* link);

 private:
  void carry_all_reduce(void* data, DType type, int64_t elements) override;
  void carry_all_gather(void* full, const void* shard, DType type, int64_t elements) override;
  void carry_reduce_scatter(float* shard, const float* full, int64_t elements) override;
  void carry_shift(void* in, const void* out, int64_t bytes) override;
  void carry_all_to_all(void* in, const void* out, int64_t bytes) override;
  void carry_all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                          const std::vector<int64_t>& out_bytes) override;
  void carry_gather_to_host(int32_t* host, int32_t* full, const int32_t* shard, int64_t elements) override;
  void carry_broadcast(void* data, int64_t bytes, int64_t root) override;
  void carry_finish(comm::Work call) override { group_.follow(call); }
  void give(comm::Work work);

  comm::ProcessGroup& group_;
  device::HostLink& link_;
  RingBytes ring_;
};

/// A wire through the hosts, over a process group with a lane of its own. Calls allocate nothing and throw
/// the group's errors.
class GroupWire final : public BlockWire {
 public:
  /// All arguments must outlive the wire. `staging` is host memory for the largest exchange if the host
  /// cannot access the device's memory, else null.
  GroupWire(comm::ProcessGroup* group, device::HostLink* link, char* staging);

 private:
  void carry_all_reduce(void* data, DType type, int64_t elements) override;
  void carry_all_gather(void* full, const void* shard, DType type, int64_t elements) override;
  void carry_reduce_scatter(float* shard, const float* full, int64_t elements) override;
  void carry_shift(void* in, const void* out, int64_t bytes) override;
  void carry_all_to_all(void* in, const void* out, int64_t bytes) override;
  void carry_all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                          const std::vector<int64_t>& out_bytes) override;
  void carry_gather_to_host(int32_t* host, int32_t* full, const int32_t* shard, int64_t elements) override;
  void carry_broadcast(void* data, int64_t bytes, int64_t root) override;
  void carry_finish(comm::Work call) override;
  bool begins_in_place();
  char* host_of(const void* data, int64_t offset) const;
  void send_back(void* data, const char* host, int64_t bytes);

  comm::ProcessGroup& group_;
  device::HostLink& link_;
  char* staging_;
  RingBytes ring_;
  /// The pieces of sums that were begun. The memory is reserved, so that they do not move while calls read
  /// them.
  std::vector<comm::AllReducePiece> reduced_;
  std::vector<comm::ReducePiece> scattered_;
};

}  // namespace hawser::parallel
