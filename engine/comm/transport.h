// Transport: runs one rank's calls, on the threads of its lanes (lane.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/call.h"
#include "engine/comm/fault.h"
#include "engine/comm/lane.h"
#include "engine/comm/pairs.h"

namespace hawser::comm {

struct GroupRequest;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;

  // For the issuing thread.

  /// The number of this lane; main is 0 and exists from the start. The same for the same name. A transport
  /// with a single thread has lane 0 only.
  virtual int32_t lane(const Lane& lane) = 0;
  virtual bool has_lanes() const { return true; }
  /// RankComm::expect.
  virtual void expect(std::span<const GroupRequest> /*groups*/) {}
  /// Adds a group whose calls will carry `group`, the number of groups created so far, and connects those of
  /// its `pairs` that include this rank. Call before any call of the group.
  virtual void add_group(int32_t group, int32_t lane, const std::vector<int32_t>& members,
                         const std::string& name, Pairs pairs) = 0;

  /// The issuing thread waits for this call now; null: for none any more. Who runs into a deadline then finds
  /// out who keeps whom waiting.
  virtual void waits_for(const Call* /*call*/) noexcept {}

  // For any thread.

  /// Runs one call, on its lane's thread; calls of other lanes may run meanwhile. Throws on any failure. By
  /// then no other rank accesses this member's memory any more, and fault() is set here and, as far as the
  /// transport can, on all ranks.
  virtual void run(const Call& call) = 0;
  /// The devices of the call's members failed in it with `error`, which does not say why. Their hosts meet.
  /// Throws who did not come, or who came with another call; otherwise `error`. For the thread of its lane.
  [[noreturn]] virtual void find_cause(const Call& call, const Error& error) = 0;
  /// Makes all ranks' waiting and later calls throw this error. Returns false if they are broken already.
  /// Allocates nothing.
  virtual bool abort(const Error& error) noexcept = 0;
  /// Throws the reason if the comm is broken and that is known without waiting. For the thread of the main
  /// lane, also during `run`.
  virtual void look() { fault().raise_if_set(); }
  virtual Fault& fault() = 0;
  /// The rank ends; `run` is not called any more.
  virtual void leave() noexcept = 0;
  virtual int64_t bytes() const = 0;
  /// Bytes passed to sockets or to the host's functions so far. For the lane's thread.
  virtual int64_t wire_bytes(int32_t /*lane*/) const { return 0; }
};

}  // namespace hawser::comm
