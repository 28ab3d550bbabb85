// BlockWire: what carries the exchanges inside a block: collectives of the ranks that compute a block
// together. The context's stream goes on with the result of each when the call returns, unless it was begun
// to be finished later. tensor_parallel.h says which of them a module needs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/exchange_note.h"
#include "engine/base/turns.h"
#include "engine/comm/process_group.h"
#include "engine/device/host_link.h"

namespace hawser::parallel {

class BlockWire {
 public:
  virtual ~BlockWire() = default;
  int64_t rank() const { return rank_; }
  int64_t ranks() const { return ranks_; }
  /// The most bytes that one call reads and writes in memory.
  int64_t most_bytes() const { return most_bytes_; }
  /// A call may be as large as this, although this one is not.
  void expect(int64_t bytes) { most_bytes_ = std::max(most_bytes_, bytes); }
  /// The most device memory that one call needs for its sum between devices.
  int64_t most_sum_bytes() const { return most_sum_bytes_; }

  /// Replaces data[elements] by its sum over ranks, in f32. Addends and sum are of `type`: f32 or bf16.
  void all_reduce(void* data, DType type, int64_t elements);
  /// Fills full[ranks][elements] from `shard`[elements] of each rank, which may be at its place there.
  void all_gather(void* full, const void* shard, DType type, int64_t elements);
  /// Computes shard[elements], this rank's part of the sum over ranks of full[ranks][elements], in f32.
  void reduce_scatter(float* shard, const float* full, int64_t elements);
  /// Sends `out`[elements] to the next rank and fills `in`[elements] from the previous one, around the ring.
  void shift(void* in, const void* out, DType type, int64_t elements);
  /// Copies rank s's out[r][elements] to rank r's in[s][elements].
  void all_to_all(void* in, const void* out, DType type, int64_t elements);
  /// The same in bytes of individual sizes, contiguous by rank.
  void all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                    const std::vector<int64_t>& out_bytes);
  /// all_gather of whole numbers, which the host reads when the call returns. It waits for the context's
  /// stream. `full` is the device's memory and may stay unwritten; `host` is pinned memory as large, or
  /// `full` if the host reaches that.
  void gather_to_host(int32_t* host, int32_t* full, const int32_t* shard, int64_t elements);
  /// Copies data[elements] of rank `root` to all ranks.
  void broadcast(void* data, DType type, int64_t elements, int64_t root);

  /// The next call is only begun: until `finish`, nothing may use its memory, and no other call may follow.
  void begin_next() { begins_ = true; }
  /// Whether nothing moves, so that what came must not be read.
  virtual bool dry() const { return false; }
  void finish() { carry_finish(begun_); }

  // Of a call of all_to_all_v that was begun, `finish_overlapped` is the finish, too. Others may then follow;
  // the last finishes all.

  /// First lets the other half of a pair go on, if there is one.
  void finish_overlapped();
  /// Seconds in which finish_overlapped waited, since this was asked last.
  double take_waited() { return std::exchange(waited_, 0); }
  /// Waits until what was begun is over, with or without errors. For a rank that gives up.
  void settle() noexcept;
  /// Those of a rank whose plan has pairs. They must outlive the wire.
  void take_turns(Turns* turns) { turns_ = turns; }

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
  /// Whether the call is to be finished later. Once for each call.
  bool begins() { return std::exchange(begins_, false); }
  /// Notes a call that is to be finished later.
  void has_begun(comm::Work call) { begun_ = call; }
  /// Before a call: what this rank sends by the ring form of the operation (comm/ledger.h).
  virtual void note(comm::Operation, int64_t /*sent*/) {}

 private:
  void count(comm::Operation operation, int64_t sent, int64_t bytes);

  int64_t rank_, ranks_;
  int64_t most_bytes_ = 0, most_sum_bytes_ = 0;
  bool begins_ = false;
  comm::Work begun_;
  double waited_ = 0;
  Turns* turns_ = nullptr;
};

/// A shift is one call of all members, with bytes for one of them.
class RingBytes {
 public:
  RingBytes(int64_t rank, int64_t ranks);
  /// Sends `out`[bytes] to the next rank, and fills `in` from the previous one.
  comm::Work shift(comm::ProcessGroup* group, void* in, const void* out, int64_t bytes);

 private:
  int64_t next_, previous_;
  std::vector<int64_t> to_next_, from_previous_;  // by member
};

/// For dry runs: moves nothing.
class CountingWire final : public BlockWire {
 public:
  explicit CountingWire(int64_t ranks, int64_t rank = 0) : BlockWire(rank, ranks) {}
  /// Writes down every exchange as one of `group`. Both must outlive the wire. `beside`: what is begun can be
  /// carried while the rank computes.
  CountingWire(int64_t ranks, const char* group, ExchangeNotes* notes, bool beside = true)
      : BlockWire(0, ranks), group_(group), notes_(notes), beside_(beside) {}

  bool dry() const override { return true; }

 private:
  void note(comm::Operation operation, int64_t sent) override {
    if (notes_ && ranks() > 1) notes_->add(group_, comm::operation_name(operation), sent);
  }
  void carry_all_reduce(void*, DType, int64_t) override {}
  void carry_all_gather(void*, const void*, DType, int64_t) override {}
  void carry_reduce_scatter(float*, const float*, int64_t) override {}
  void carry_shift(void*, const void*, int64_t) override {}
  void carry_all_to_all(void*, const void*, int64_t) override {}
  void carry_all_to_all_v(void*, const std::vector<int64_t>&, const void*,
                          const std::vector<int64_t>&) override {
    if (begins() && notes_ && !notes_->list.empty()) notes_->list.back().beside = beside_;
  }
  void carry_gather_to_host(int32_t*, int32_t*, const int32_t*, int64_t) override {}
  void carry_broadcast(void*, int64_t, int64_t) override {}

  const char* group_ = "";
  ExchangeNotes* notes_ = nullptr;
  bool beside_ = true;
};

/// From device to device, by a process group of them (DeviceUse::by_issuer). Errors come when its DeviceComm
/// is waited for.
class DeviceWire final : public BlockWire {
 public:
  /// Both must outlive the wire.
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

/// Over the hosts, by a process group with a lane of its own. Calls allocate nothing and throw the group's
/// errors.
class GroupWire final : public BlockWire {
 public:
  /// All must outlive the wire. `staging` is host memory for the largest exchange if the host cannot access
  /// the device's memory, else null.
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
  void carry_finish(comm::Work call) override { group_.wait(call); }
  char* host_of(const void* data, int64_t offset) const;
  void send_back(void* data, const char* host, int64_t bytes);

  comm::ProcessGroup& group_;
  device::HostLink& link_;
  char* staging_;
  RingBytes ring_;
};

}  // namespace hawser::parallel
