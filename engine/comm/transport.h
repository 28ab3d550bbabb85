// Transport: what carries out one rank's calls. Its thread is the rank's progress thread, but for abort.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/call.h"
#include "engine/comm/fault.h"

namespace hawser::comm {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int32_t rank() const = 0;
  virtual int32_t world_size() const = 0;
  /// Makes room for a group whose calls will carry `group`, the number of groups made so far. The issuing
  /// thread, before any call of the group.
  virtual void add_group(int32_t group, const std::vector<int32_t>& members, const std::string& name) = 0;
  /// Carries out one call. Throws when it fails, for whatever reason; by then nobody touches this member's
  /// memory any more, and fault() is set here and, as far as the transport can, on all ranks.
  virtual void run(const Call& call) = 0;
  /// Breaks all ranks' waiting and later calls with this error, unless they are broken already: then false.
  /// Any thread; takes no memory.
  virtual bool abort(const Error& error) noexcept = 0;
  /// Throws why all is broken, if that can be known without waiting. The progress thread, beside `run`.
  virtual void look() { fault().raise_if_set(); }
  virtual Fault& fault() = 0;
  /// The rank ends; `run` is called no more.
  virtual void leave() noexcept = 0;
  virtual int64_t bytes() const = 0;
  /// Bytes given to sockets or to the host's functions so far. The progress thread.
  virtual int64_t wire_bytes() const { return 0; }
};

}  // namespace hawser::comm
