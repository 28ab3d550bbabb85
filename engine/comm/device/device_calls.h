// DeviceCalls: runs a rank's calls on memory of its device. Between devices that have a link, bytes go over
// it (device_collectives.h); otherwise messages go through host memory (staged_messages.h).
#pragma once

#include <cstdint>

#include "engine/comm/call.h"

namespace hawser::comm {

class QueuedGroup;

class DeviceCalls {
 public:
  virtual ~DeviceCalls() = default;
  DeviceCalls(const DeviceCalls&) = delete;
  DeviceCalls& operator=(const DeviceCalls&) = delete;

  // The issuing thread calls the following functions.

  /// Announces the next call and its ticket. The call starts after the work submitted to the compute stream
  /// so far.
  virtual void issues(const Call& call, uint64_t ticket) = 0;
  /// During a capture, captures the call and returns true.
  virtual bool captures(const Call& /*call*/, QueuedGroup* /*group*/) { return false; }
  /// Implements ProcessGroup::follow.
  virtual void follow(uint64_t ticket) = 0;

  /// Returns when the call is done. The progress thread calls it.
  virtual void run(const Call& call) = 0;

 protected:
  DeviceCalls() = default;
};

}  // namespace hawser::comm
