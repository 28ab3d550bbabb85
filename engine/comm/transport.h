// Transport: what carries out one rank's calls, on the threads of its lanes (lane.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/call.h"
#include "engine/comm/fault.h"
#include "engine/comm/lane.h"
#include "engine/comm/pairs.h"

namespace hawser::comm {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;

  // The issuing thread.

  /// The number of this lane; main is 0 and there from the start. The same for the same name. A transport that
  /// bears one thread has lane 0 alone.
  virtual int32_t lane(const Lane& lane) = 0;
  virtual bool has_lanes() const { return true; }
  /// Makes room for a group whose calls will carry `group`, the number of groups made so far, and connects
  /// those of its `pairs` that this rank is one of. Before any call of the group.
  virtual void add_group(int32_t group, int32_t lane, const std::vector<int32_t>& members,
                         const std::string& name, Pairs pairs) = 0;

  // Any thread.

  /// Carries out one call, on its lane's thread; calls of other lanes may run meanwhile. Throws when it fails, for whatever reason; by then nobody touches this member's
  /// memory any more, and fault() is set here and, as far as the transport can, on all ranks.
  virtual void run(const Call& call) = 0;
  /// Breaks all ranks' waiting and later calls with this error, unless they are broken already: then false.
  /// Takes no memory.
  virtual bool abort(const Error& error) noexcept = 0;
  /// Throws why all is broken, if that can be known without waiting. The thread of the main lane, beside `run`.
  virtual void look() { fault().raise_if_set(); }
  virtual Fault& fault() = 0;
  /// The rank ends; `run` is called no more.
  virtual void leave() noexcept = 0;
  virtual int64_t bytes() const = 0;
  /// Bytes given to sockets or to the host's functions so far. The lane's thread.
  virtual int64_t wire_bytes(int32_t /*lane*/) const { return 0; }
};

}  // namespace hawser::comm
