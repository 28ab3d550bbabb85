// Comm: the ranks of this process and their connection to all other ranks. Ranks may be threads of one
// process (local), processes on one or several nodes over TCP (address), or connected by the host program
// (host).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/connections.h"
#include "engine/comm/lane.h"
#include "engine/comm/link_topology.h"
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

/// A group that a rank will create.
struct GroupRequest {
  std::vector<int32_t> members;  ///< world ranks, ascending
  std::string name;
  Lane lane = {};
  LinkTopology pairs = LinkTopology::kAll;
};

/// The device memory that a rank's calls access. The rank's links register it (PeerLink::register_memory).
struct PeerMemory {
  struct Range {
    void* begin;
    int64_t bytes;
  };
  /// All of this memory, from Device::allocate_for_peers; empty if any part was allocated in another way.
  std::vector<Range> ranges;
  std::string without;  ///< why `ranges` is empty; "" if it is not
};

/// Number of links, and how many of them have registered the memory.
struct RegisteredLinks {
  int64_t links = 0, registered = 0;
  std::string without;  ///< why the other links have not; "" if all have
};

/// Resources with which a rank's device communicates with its peers. All of it must outlive the DeviceComm.
struct DeviceUse {
  device::Device* device = nullptr;
  void* staging = nullptr;  ///< device memory for sums; at least device_staging_bytes of every sum
  int64_t staging_bytes = 0;
  double timeout_seconds = 60;  ///< for each call, from the time when this rank's device reaches it
  /// Lane of all groups. Calls of a lane other than the main one run on a stream of their own. There is one
  /// DeviceComm for each lane.
  Lane lane = {};
  /// The issuing thread submits a call to the device itself, so that it may be captured with the compute
  /// stream's work.
  bool by_issuer = false;
  /// One byte of device memory, or null. Each two members send it to each other when a group is made, because
  /// a library may connect them at their first message, and the thread that issues that message would wait
  /// for the other member.
  void* first_byte = nullptr;
  int32_t most_processors = 0;  ///< PeerLinkRequest::most_processors
  /// A group registers it only if all of its ranks name ranges.
  const PeerMemory* memory = nullptr;
};

/// Host memory that messages in memory of a rank's device pass through. All of it must outlive the group.
struct HostStaging {
  device::Device* device = nullptr;
  void* pinned = nullptr;  ///< pinned host memory, as large as the largest message
  int64_t bytes = 0;
};

struct ForgetCalls {
  void operator()(CapturedCalls* calls) const;
};
/// Calls that a graph contains (Device::begin_capture). They refer to their groups.
using CallsOfGraph = std::unique_ptr<CapturedCalls, ForgetCalls>;

/// DeviceComm: a rank's groups for memory of its device (all_reduce_i64 uses host memory). A PeerLink moves
/// the data. A call starts when the compute stream has finished the work submitted before the call. Hosts
/// exchange nothing with a call; ranks compare their trails afterwards.
class DeviceComm {
 public:
  /// Waits for this rank's calls. Its groups must not be used afterwards.
  virtual ~DeviceComm() = default;
  /// Creates a group like RankComm::make_group, and also connects the members' devices. Collective. Throws
  /// kTimeout, kUnavailable.
  virtual std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name) = 0;
  /// Returns the registrations of the groups made so far.
  virtual const RegisteredLinks& registered() const = 0;
  /// Returns the trail of the calls issued so far by any DeviceComm of this rank.
  virtual const CallTrail& trail() const = 0;
  /// Waits until all calls issued so far are done. Throws the same errors as ProcessGroup::wait.
  virtual void wait() = 0;
  /// Waits until all calls issued so far are done, and reports no errors.
  virtual void drain() noexcept = 0;

  // The following functions are for by_issuer. Whether a call is captured must be the same on all members,
  // because NCCL requires it.

  /// Starts capturing: the stream's work is being captured, and with it the calls until end_capture.
  virtual void begin_capture() = 0;
  virtual CallsOfGraph end_capture() = 0;
  /// Call these around each launch of the graph, so that its calls count as issued. Both allocate nothing.
  virtual void launches(const CapturedCalls& calls) = 0;
  virtual void launched(const CapturedCalls& calls) = 0;
};

/// Returns the most device memory needed to sum over `members` an array of which each owns `shard_elements`.
int64_t device_staging_bytes(int64_t shard_elements, int64_t members, const Reduction& reduction);

/// Returns the host memory of the transport of a rank that is a process: buffers for connections (or the
/// host program's functions) and for sums, and this rank's half of the memory that it shares with at most 128
/// ranks of its host, if all pairs connect. Ranks that are threads of one process need none.
int64_t process_transport_bytes(int32_t world_size);

/// One rank's end of a Comm, with its groups and its lanes. Each lane is a thread that runs the calls of all
/// its groups in the order of issue. Only one thread at a time may use it, except for abort; likewise the
/// groups of one lane.
class RankComm {
 public:
  virtual ~RankComm() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;
  /// Creates the group of `members` (world ranks, ascending, including this rank), whose calls run in `lane`.
  /// Every member creates its groups in the same order. `name` appears in messages. Over TCP this is
  /// collective: the `pairs` that are not connected in this lane yet connect. A group of LinkTopology::kTree
  /// rejects calls that need other pairs. Groups must be destroyed before their RankComm. Throws kTimeout
  /// with the members that did not arrive.
  virtual std::unique_ptr<ProcessGroup> make_group(std::vector<int32_t> members, std::string name,
                                                   const Lane& lane = {},
                                                   LinkTopology pairs = LinkTopology::kAll) = 0;
  /// Counts the connections that these groups need together, before the first group is created. Throws
  /// kFailedPrecondition, with both numbers, if this process may not open so many descriptors.
  virtual void expect(std::span<const GroupRequest> /*groups*/) {}
  /// Returns true if lanes are independent; otherwise calls of all lanes run in the order of issue (lane.h).
  virtual bool has_lanes() const = 0;
  /// Creates the DeviceComm of this rank. Either all ranks of the world call this, each with its own device,
  /// or none. Destroy it before the RankComm.
  virtual std::unique_ptr<DeviceComm> on_device(const DeviceUse& use) = 0;
  /// Creates a group whose members send and receive in memory of their devices, through host memory. It must
  /// be the only group of its lane.
  virtual std::unique_ptr<ProcessGroup> make_staged_group(std::vector<int32_t> members, std::string name,
                                                          const Lane& lane, const HostStaging& staging) = 0;
  /// Makes all waiting and later calls on all ranks throw this error with this rank's number
  /// (Error::on_rank). Returns false if the comm was already broken. Any thread may call it; it allocates
  /// nothing.
  virtual bool abort(const Error& error) noexcept = 0;
  /// Returns the bytes that the transport holds for this rank's sums, fixed when its lanes are created.
  virtual int64_t transport_bytes() const = 0;
  /// Returns the connections made so far. The host program's transport does not report any, and threads have
  /// none.
  virtual Connections connections() const { return {}; }
  /// Returns the names of the lanes so far, indexed by Work::lane; the first is the main one.
  virtual std::vector<std::string> lane_names() const = 0;
  /// Copies the calls of a lane that finished since the last take_records, oldest first, at most `most`.
  /// Calls older than the last 2,048 issued are lost. It allocates nothing.
  virtual int64_t take_records(int32_t lane, Record* out, int64_t most) = 0;
  /// Copies the last calls, finished or not: at most 2,048 for each lane and `most` in total, oldest first.
  /// Any thread may call it, also during calls and after an error; it never waits.
  virtual int64_t recall(Record* out, int64_t most) const = 0;
  /// Returns the groups' names, indexed by Record::group. Any thread may call it.
  virtual std::vector<GroupName> group_names() const = 0;
};

struct CommOptions {
  double timeout_seconds = 60;                    ///< for each call, once it is the first of its lane
  const kernels::KernelTable* kernels = nullptr;  ///< kernels for the sums; must outlive the Comm
  /// If above 0, every call takes at least bytes / bandwidth_limit, for experiments with overlap (local
  /// transport only, whatever the lane). A lane with at_once delays the thread that issues its calls.
  double bandwidth_limit = 0;
};

class Comm {
 public:
  virtual ~Comm() = default;
  virtual int32_t world_size() const = 0;
  virtual std::span<const int32_t> local_ranks() const = 0;  ///< world ranks in this process, ascending
  /// Connects one local rank. Call it for each, in parallel from separate threads or one after the other (it
  /// never blocks). One engine at a time connects a Comm: throws kBusy otherwise.
  virtual std::unique_ptr<RankComm> connect(int32_t rank, const CommOptions& options) = 0;
  /// Reports the failure of a process before its ranks are connected: ranks of other processes, if any, throw
  /// this error with its first rank's number. Any thread may call it; it allocates nothing.
  virtual void abort(const Error& error) noexcept = 0;
};

/// Creates a Comm whose ranks are threads of this process, over shared memory. After an error all RankComms
/// must be destroyed; then the Comm can be connected again. Throws kInvalidArgument unless `ranks` is from 1
/// to kMaxLocalRanks.
std::shared_ptr<Comm> make_local(int32_t ranks);
inline constexpr int32_t kMaxLocalRanks = 4096;

}  // namespace hawser::comm
