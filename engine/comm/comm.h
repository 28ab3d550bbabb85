// Comm: all ranks that this process holds, and how they reach the others. Ranks may be threads of one process
// (local), processes and hosts over TCP (address), or whatever the host program connects them with (host).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/lane.h"
#include "engine/comm/pairs.h"
#include "engine/comm/process_group.h"
#include "kernels/include/table.h"

namespace hawser::device {
class Device;
}

namespace hawser::comm {

struct GroupName {
  std::string name;
  std::vector<int32_t> members;  ///< world ranks
  std::string lane;
};

/// With what a rank's device speaks to its peers'. All of it outlives the DeviceComm.
struct DeviceUse {
  device::Device* device = nullptr;
  void* staging = nullptr;  ///< device memory for sums; device_staging_bytes of every sum, at least
  int64_t staging_bytes = 0;
  double timeout_seconds = 60;  ///< of each call, from the moment when this rank's device has come to it
};

/// A rank's groups whose calls take and give memory of its device (but for all_reduce_i64, whose numbers are
/// the host's): agreed over the comm, carried out by a PeerLink. A call begins when the compute stream has
/// done what it was given before the call was issued.
class DeviceComm {
 public:
  /// Waits for this rank's calls; their groups are not used any more.
  virtual ~DeviceComm() = default;
  /// As RankComm::make_group, and the members' devices meet: collective. Throws kTimeout, kUnavailable.
  virtual std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name) = 0;
};

/// Device memory that summing over `members` takes at most: an array of which each owns `shard_elements`.
int64_t device_staging_bytes(int64_t shard_elements, int64_t members);

/// Memory of the host that the transport of a rank holds which is a process of its own: what is between
/// sockets (or the host's functions) and sums. Ranks that are threads of one process need none.
int64_t process_transport_bytes(int32_t world_size);

/// One rank's end of a Comm: its groups and its lanes, each a thread that carries out calls in the order in
/// which they were issued, whichever of the lane's groups they belong to. Used by one thread at a time, but for
/// abort; the groups of a lane by one thread at a time.
class RankComm {
 public:
  virtual ~RankComm() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;
  /// The group of `members` (world ranks, ascending, this rank among them), whose calls run in `lane`. Every
  /// member makes its groups in the same order. `name` goes into messages. Collective over TCP, where `pairs`
  /// that are not connected in this lane yet connect; a group of Pairs::kTree refuses calls that need others.
  /// Groups end before their RankComm. Throws kTimeout naming members that do not come.
  virtual std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name,
                                                   const Lane& lane = {}, Pairs pairs = Pairs::kAll) = 0;
  /// Whether lanes are apart; if not, calls of all lanes run in the order of issue (lane.h).
  virtual bool has_lanes() const = 0;
  /// Every rank of the world with a device of its own, or none. Ends before the RankComm.
  virtual std::unique_ptr<DeviceComm> on_device(const DeviceUse& use) = 0;
  /// Everyone's waiting and later calls throw this error, on this rank (Error::on_rank); false if something
  /// else broke the comm before. Any thread; takes no memory.
  virtual bool abort(const Error& error) noexcept = 0;
  /// Bytes of memory that the transport holds for this rank's sums, fixed when its lanes were made.
  virtual int64_t transport_bytes() const = 0;
  /// Finished calls of the main lane since the last take, oldest first, at most `most`; older ones than the
  /// last 2,048 issued are lost. Allocates nothing.
  virtual int64_t take_records(Record* out, int64_t most) = 0;
  /// The last calls, at most 2,048 of a lane and `most` together, oldest first, whatever became of them. Any
  /// thread, also beside calls and after an error; waits for nothing.
  virtual int64_t recall(Record* out, int64_t most) const = 0;
  /// By Record::group. Any thread.
  virtual std::vector<GroupName> group_names() const = 0;
};

struct CommOptions {
  double timeout_seconds = 60;                    ///< of each call, from the moment its turn comes
  const kernels::KernelTable* kernels = nullptr;  ///< for the sums; must outlive the Comm
  /// > 0: every call takes at least bytes / this, for experiments with overlap (local transport only).
  double bandwidth_limit = 0;
};

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int32_t world_size() const = 0;
  virtual std::span<const int32_t> local_ranks() const = 0;  ///< world ranks held here, ascending
  /// Connects one local rank; called on each, at the same time from threads of their own or one after the
  /// other (nothing blocks here). A Comm is connected by one engine at a time: throws kBusy otherwise.
  virtual std::unique_ptr<RankComm> connect(int32_t rank, const CommOptions& options) = 0;
  /// For a process that fails before its ranks are connected: those of other processes, if there are any,
  /// throw this error, on its first rank. Any thread; takes no memory.
  virtual void abort(const Error& error) noexcept = 0;
};

/// n ranks as threads of this process, over shared memory. After an error all RankComms must go; then the
/// Comm can be connected anew.
/// kInvalidArgument unless `ranks` is from 1 to kMaxLocalRanks.
std::shared_ptr<Comm> make_local(int32_t ranks);
inline constexpr int32_t kMaxLocalRanks = 4096;

}  // namespace hawser::comm
