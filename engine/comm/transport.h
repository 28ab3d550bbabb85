// Transport: runs one rank's calls, on the threads of its lanes (lane.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/call.h"
#include "engine/comm/connections.h"
#include "engine/comm/fault.h"
#include "engine/comm/lane.h"
#include "engine/comm/link_topology.h"

namespace hawser::comm {

struct GroupRequest;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;

  // The issuing thread calls the following functions.

  /// Returns the number of this lane, the same for the same name; the main lane is 0 and exists from the
  /// start. A transport with a single thread has lane 0 only.
  virtual int32_t lane(const Lane& lane) = 0;
  virtual bool has_lanes() const { return true; }
  /// Implements RankComm::expect.
  virtual void expect(std::span<const GroupRequest> /*groups*/) {}
  /// Adds a group whose calls will carry `group`, the number of groups created so far, and connects those of
  /// its `pairs` that include this rank. Call it before any call of the group.
  virtual void add_group(int32_t group, int32_t lane, const std::vector<int32_t>& members,
                         const std::string& name, LinkTopology pairs) = 0;

  /// Records the call that the issuing thread waits for now; null if it stops waiting. A rank that times out
  /// uses these records to find the rank that causes the delay.
  virtual void waits_for(const Call* /*call*/) noexcept {}

  // The following functions may be called by other threads.

  /// Runs one call, on its lane's thread; calls of other lanes may run meanwhile. Throws on any failure. By
  /// then no other rank accesses this member's memory any more, and fault() is set on this rank and, as far
  /// as the transport can, on all ranks.
  virtual void run(const Call& call) = 0;
  /// Finds the cause after the devices of the call's members failed in it with `error`, which has no cause.
  /// Their hosts compare the call. Throws an error that names a rank that did not arrive, or that made
  /// another call; otherwise `error`. The thread of the call's lane calls it.
  [[noreturn]] virtual void find_cause(const Call& call, const Error& error) = 0;
  /// Makes waiting and later calls of all ranks throw this error. Returns false if they are broken already.
  /// It allocates nothing.
  virtual bool abort(const Error& error) noexcept = 0;
  /// Throws the reason if the comm is broken and that is known without waiting. The thread of the main lane
  /// calls it, also during `run`.
  virtual void look() { fault().raise_if_set(); }
  virtual Fault& fault() = 0;
  /// Reports that the rank ends; `run` is not called any more.
  virtual void leave() noexcept = 0;
  virtual int64_t bytes() const = 0;
  /// Implements RankComm::connections.
  virtual Connections connections() const { return {}; }
  /// Returns the bytes passed to sockets or to the host program's functions so far. The lane's thread calls
  /// it.
  virtual int64_t wire_bytes(int32_t /*lane*/) const { return 0; }
  /// Returns the charged bytes (ledger.h) of the calls of this call's group so far. The lane's thread calls
  /// it.
  virtual int64_t charged_bytes(const Call& /*call*/) { return 0; }
};

}  // namespace hawser::comm
