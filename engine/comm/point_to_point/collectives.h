// PeerCollectives: collectives made of sends and receives. N members in a row exchange in pairs, in a common
// order: in round k, members m and (k - m) mod N exchange. Each round is a matching and all members go
// through the rounds in order, so there is no deadlock, however little the transport buffers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/call.h"
#include "engine/comm/fault.h"
#include "engine/comm/link_topology.h"
#include "engine/comm/ordered_sums.h"
#include "engine/comm/point_to_point/link.h"
#include "engine/comm/point_to_point/tag.h"
#include "engine/comm/serial_stream.h"
#include "kernels/include/table.h"

namespace hawser::comm {

/// Memory between the wire and the sums, allocated once for each lane: exactly `bytes`, for any number of
/// groups.
struct Staging {
  explicit Staging(int64_t bytes) : floats(static_cast<size_t>(bytes) / sizeof(float)) {}
  int64_t bytes() const { return static_cast<int64_t>(floats.size() * sizeof(float)); }
  std::vector<float> floats;
};

struct PeerGroup {
  std::vector<int32_t> members;  ///< world ranks
  std::string name;
  int32_t member = 0;
  uint64_t mark = 0;  ///< Tag::group_mark
  LinkTopology pairs = LinkTopology::kAll;
  int32_t size() const { return static_cast<int32_t>(members.size()); }
};

/// Runs one call of one group at a time, on the progress thread.
class PeerCollectives final : private RowExchange {
 public:
  PeerCollectives(Link& link, Staging& staging, const kernels::KernelTable& kernels, const Fault& fault,
                  int32_t world_size);

  /// All messages must arrive before `deadline`; `timeout_seconds` is for the text of the error.
  void run(const PeerGroup& group, const Call& call, double deadline, double timeout_seconds);
  /// Compares the call between members without running it. Collective. It is in agreement.cc of this folder.
  void meet(const PeerGroup& group, const Call& call, double deadline, double timeout_seconds);

 private:
  // The following functions are in agreement.cc of this folder.
  void begin_call(const PeerGroup& group, const Call& call, double deadline, double timeout_seconds);
  void exchange(int32_t member, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                bool always = false);
  void send_tag(int32_t member);
  void recv_tag(int32_t member);
  void swap_messages(int32_t member, const Outgoing& out, const Incoming& in);
  static bool fits(void* self);
  [[noreturn]] void refuse(int32_t member);
  [[noreturn]] void fail_missing(int32_t awaited);
  void keep_receiving(double until);
  static constexpr int64_t tag_size() { return sizeof(Tag); }

  void barrier();
  void send();
  void recv();
  void all_gather();
  void gather_in_runs(void* full, int64_t shard_bytes);
  void gather_by_tree(void* full, int64_t shard_bytes);
  void broadcast(void* data, int64_t bytes, int32_t root);
  void all_to_all();

  // The following functions are in integer_sum.cc.
  void all_reduce_i64();
  void sum_integers(int64_t* data, int64_t count);
  void halve_and_double(int64_t* data, int64_t count, int32_t core);

  void all_to_all(const Row& row, char* in, const Messages& received, const char* out,
                  const Messages& sent) override;
  bool all_gather(char*, const void*, int64_t) override { return false; }
  int64_t most_relayed_bytes() const override;

  /// Calls visit(partner) for each other member of `row`, in the common order.
  template <class Visit>
  void for_each_partner(const Row& row, const Visit& visit) {
    const int32_t me = (group_->member - row.first) / row.stride;
    for (int32_t k = 0; k < row.count; ++k) {
      const int32_t partner = (k - me + row.count) % row.count;
      fault_.raise_if_set();
      if (partner != me) visit(row.first + partner * row.stride);
    }
  }
  Row all() const { return {0, 1, group_->size()}; }

  Link& link_;
  Staging& staging_;
  const Fault& fault_;
  SerialStream stream_;
  OrderedSums sums_;
  Tag tag_, expected_, arrived_;  ///< tags of the running call; the last tag received
  uint64_t serial_ = 0;           ///< number of the running call among all calls of this rank
  /// For each member: the serial of the last call in which a tag was sent to it, and received from it.
  std::vector<uint64_t> told_, heard_;
  const PeerGroup* group_ = nullptr;  ///< group of the running call
  const Call* call_ = nullptr;
  double deadline_ = 0, timeout_seconds_ = 0;
};

}  // namespace hawser::comm
