// QueuedGroup: a ProcessGroup that queues calls on a Progress. It checks every call when it is issued, so
// that its caller receives the error of a bad argument, and nothing breaks.
#pragma once

#include "engine/comm/device/device_calls.h"
#include "engine/comm/queued_rank.h"

namespace hawser::comm {

class QueuedGroup final : public ProcessGroup {
 public:
  QueuedGroup(Progress& progress, GroupCounters& counters, int32_t index, int32_t rank,
              std::vector<int32_t> members, std::string name, bool sums, LinkTopology pairs);

  Work all_gather(std::span<const GatherPiece> pieces, DType type) override;
  Work reduce_scatter(std::span<const ReducePiece> pieces, const Reduction& reduction) override;
  Work all_reduce(std::span<const AllReducePiece> pieces, const Reduction& reduction) override;
  Work all_reduce_i64(int64_t* data, int64_t count) override;
  Work all_to_all(void* out, const void* in, int64_t bytes) override;
  Work all_to_all_v(void* out, std::span<const int64_t> out_bytes, const void* in,
                    std::span<const int64_t> in_bytes) override;
  Work broadcast(void* data, int64_t bytes, int32_t root) override;
  Work send(const void* data, int64_t bytes, int32_t to) override;
  Work recv(void* data, int64_t bytes, int32_t from) override;
  Work barrier() override;

  void wait(Work work) override { progress_.wait(ticket_of(work)); }
  void follow(Work work) override;
  bool done(Work work) const override { return progress_.done(ticket_of(work)); }
  Traffic traffic() const override;

  int32_t index() const { return index_; }
  /// Makes all later calls use memory of a device.
  void move_to(DeviceCalls* device) { device_ = device; }
  /// Same, with a DeviceCalls for this group alone.
  void move_to(std::unique_ptr<DeviceCalls> device) { device_ = (own_ = std::move(device)).get(); }
  /// Records that a graph with this captured call was launched. Only one of the graph's calls is watched.
  void launched(const Call& captured, bool watched);

 private:
  Call start(Operation operation) const;
  uint64_t push(const Call& call);
  Work issue(Call& call);
  Work pass(Call& call, int32_t peer, uint64_t& sequence);
  uint64_t ticket_of(Work work) const;
  void check_reduction(const Call& call) const;
  void check_size(Operation operation, const char* what, int64_t index, int64_t size) const;
  template <typename Piece, typename First, typename Second>
  void sign_pieces(Call* call, std::span<const Piece> pieces, int64_t Piece::*elements,
                   const char* first_name, First Piece::*first, const char* second_name,
                   Second Piece::*second) const;
  void check_memory(Operation operation, const char* what, int64_t index, const void* data,
                    int64_t size) const;
  void check_member(Operation operation, const char* what, int32_t member) const;

  Progress& progress_;
  GroupCounters& counters_;
  std::unique_ptr<DeviceCalls> own_;
  DeviceCalls* device_ = nullptr;
  int32_t index_;
  bool sums_;
  LinkTopology pairs_;
  uint64_t sequence_ = 0;
  std::vector<uint64_t> sent_, received_;  ///< indexed by member
};

}  // namespace hawser::comm
