// DeviceCalls: carries out a rank's calls on memory of its device. Between devices that reach each other,
// bytes go over links (device_collectives.h); otherwise messages go through the host (staged_messages.h).
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

  // For the issuing thread.

  /// Announces the next call and its ticket. It comes after the work submitted to the compute stream so far.
  virtual void issues(const Call& call, uint64_t ticket) = 0;
  /// During a capture: captures the call, and returns true.
  virtual bool captures(const Call& /*call*/, QueuedGroup* /*group*/) { return false; }
  /// ProcessGroup::follow.
  virtual void follow(uint64_t ticket) = 0;

  /// For the progress thread: returns when the call is done.
  virtual void run(const Call& call) = 0;

 protected:
  DeviceCalls() = default;
};

}  // namespace hawser::comm
