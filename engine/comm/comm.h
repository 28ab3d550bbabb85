// Comm: the ranks of this process and their connection to all others. Ranks may be threads of one process
// (local), processes and hosts over TCP (address), or connected by the host program (host).
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

class CallTrail;
struct CapturedCalls;

struct GroupName {
  std::string name;
  std::vector<int32_t> members;  ///< world ranks
  std::string lane;
};

/// A group that a rank is about to create.
struct GroupRequest {
  std::vector<int32_t> members;  ///< world ranks, ascending
  std::string name;
  Lane lane = {};
  Pairs pairs = Pairs::kAll;
};

/// What a rank's device needs to communicate with its peers. All of it must outlive the DeviceComm.
struct DeviceUse {
  device::Device* device = nullptr;
  void* staging = nullptr;  ///< device memory for sums; at least device_staging_bytes of every sum
  int64_t staging_bytes = 0;
  double timeout_seconds = 60;  ///< for each call, from the time when this rank's device reaches it
  /// Of all groups. Calls of other lanes than the main one run on streams of their own. One DeviceComm per
  /// lane.
  Lane lane = {};
  /// The thread that issues a call gives it to the device, so that it may be captured with the compute
  /// stream's work.
  bool by_issuer = false;
  /// Device memory of a byte, or null. Members pass it to each other when a group is made: a library may
  /// connect two of them at their first message, and whoever issues that would wait for the other.
  void* first_byte = nullptr;
  int32_t most_processors = 0;  ///< PeerLinkRequest::most_processors
};

/// Where messages in memory of a rank's device wait for the host. All of it must outlive the group.
struct HostStaging {
  device::Device* device = nullptr;
  void* pinned = nullptr;  ///< memory of the host, as large as the largest message
  int64_t bytes = 0;
};

struct ForgetCalls {
  void operator()(CapturedCalls* calls) const;
};
/// Calls that a graph contains (Device::begin_capture). They refer to their groups.
using CallsOfGraph = std::unique_ptr<CapturedCalls, ForgetCalls>;

/// A rank's groups for memory of its device (all_reduce_i64 uses host memory). A PeerLink moves the data. A
/// call starts when the compute stream has finished the work submitted before the call. Hosts exchange
/// nothing with a call; ranks compare their trails afterwards.
class DeviceComm {
 public:
  /// Waits for this rank's calls. Its groups must no longer be used.
  virtual ~DeviceComm() = default;
  /// Like RankComm::make_group, and also connects the members' devices. Collective. Throws kTimeout,
  /// kUnavailable.
  virtual std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name) = 0;
  /// Of the calls issued so far by any DeviceComm of this rank.
  virtual const CallTrail& trail() const = 0;
  /// Waits until all calls so far are done. Throws as ProcessGroup::wait.
  virtual void wait() = 0;
  /// The same without errors.
  virtual void drain() noexcept = 0;

  // For calls by their issuer. Whether a call is captured must be the same on all members (so NCCL demands).

  /// The stream's work is being captured, and with it the calls until end_capture.
  virtual void begin_capture() = 0;
  virtual CallsOfGraph end_capture() = 0;
  /// Call these around each launch of the graph: its calls count as issued. Allocates nothing.
  virtual void launches(const CapturedCalls& calls) = 0;
  virtual void launched(const CapturedCalls& calls) = 0;
};

/// The most device memory needed to sum over `members` an array of which each owns `shard_elements`.
int64_t device_staging_bytes(int64_t shard_elements, int64_t members, const Reduction& reduction);

/// Host memory of the transport of a rank that is a process: buffers between sockets (or the host's
/// functions) and sums. Ranks that are threads of one process need none.
int64_t process_transport_bytes(int32_t world_size);

/// One rank's end of a Comm: its groups and its lanes. Each lane is a thread that runs the calls of all its
/// groups in the order of issue. Used by one thread at a time, except abort; the groups of a lane by one
/// thread at a time.
class RankComm {
 public:
  virtual ~RankComm() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;
  /// Creates the group of `members` (world ranks, ascending, including this rank), whose calls run in `lane`.
  /// Every member creates its groups in the same order. `name` is used in messages. Collective over TCP,
  /// where those `pairs` connect that are not connected in this lane yet; a group of Pairs::kTree refuses
  /// calls that need others. Groups must be destroyed before their RankComm. Throws kTimeout naming members
  /// that did not arrive.
  virtual std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name,
                                                   const Lane& lane = {}, Pairs pairs = Pairs::kAll) = 0;
  /// Counts the connections that these groups need together, before the first group is created. Throws
  /// kFailedPrecondition, with both numbers, if this process may not open so many descriptors.
  virtual void expect(std::span<const GroupRequest> /*groups*/) {}
  /// Whether lanes are independent; if not, calls of all lanes run in the order of issue (lane.h).
  virtual bool has_lanes() const = 0;
  /// All ranks of the world call this, each with its own device, or none does. Destroy it before the
  /// RankComm.
  virtual std::unique_ptr<DeviceComm> on_device(const DeviceUse& use) = 0;
  /// A group whose members send and receive in memory of their devices, and through the host. The only one of
  /// its lane.
  virtual std::unique_ptr<ProcessGroup> make_staged_group(std::vector<int32_t> members, std::string name,
                                                          const Lane& lane, const HostStaging& staging) = 0;
  /// Makes all waiting and later calls on all ranks throw this error with this rank's number
  /// (Error::on_rank). Returns false if the comm was already broken. Any thread; allocates nothing.
  virtual bool abort(const Error& error) noexcept = 0;
  /// Bytes that the transport holds for this rank's sums, fixed when its lanes are created.
  virtual int64_t transport_bytes() const = 0;
  /// Names of the lanes so far, indexed by Work::lane; the first is the main one.
  virtual std::vector<std::string> lane_names() const = 0;
  /// The finished calls of a lane since the last take, oldest first, at most `most`. Calls older than the
  /// last 2,048 issued are lost. Allocates nothing.
  virtual int64_t take_records(int32_t lane, Record* out, int64_t most) = 0;
  /// The last calls, finished or not: at most 2,048 per lane and `most` in all, oldest first. Any thread,
  /// also during calls and after an error; never waits.
  virtual int64_t recall(Record* out, int64_t most) const = 0;
  /// Indexed by Record::group. Any thread.
  virtual std::vector<GroupName> group_names() const = 0;
};

struct CommOptions {
  double timeout_seconds = 60;                    ///< for each call, from the moment its turn comes
  const kernels::KernelTable* kernels = nullptr;  ///< for the sums; must outlive the Comm
  /// > 0: every call takes at least bytes / this, for experiments with overlap (local transport only). Lanes
  /// whose calls run at once are not slowed down: nothing overlaps with them.
  double bandwidth_limit = 0;
};

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int32_t world_size() const = 0;
  virtual std::span<const int32_t> local_ranks() const = 0;  ///< world ranks in this process, ascending
  /// Connects one local rank. Called for each, in parallel from separate threads or one after the other
  /// (never blocks). A Comm is connected by one engine at a time: throws kBusy otherwise.
  virtual std::unique_ptr<RankComm> connect(int32_t rank, const CommOptions& options) = 0;
  /// For a process that fails before its ranks are connected: ranks of other processes, if any, throw this
  /// error with its first rank's number. Any thread; allocates nothing.
  virtual void abort(const Error& error) noexcept = 0;
};

/// Ranks as threads of this process, over shared memory. After an error all RankComms must be destroyed; then
/// the Comm can be connected again. Throws kInvalidArgument unless `ranks` is from 1 to kMaxLocalRanks.
std::shared_ptr<Comm> make_local(int32_t ranks);
inline constexpr int32_t kMaxLocalRanks = 4096;

}  // namespace hawser::comm
