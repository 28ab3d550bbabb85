// FakeStream: a stream without a GPU, which runs its work when it is polled.
#pragma once

#include <deque>
#include <functional>

#include "engine/comm/nccl/communicator.h"

namespace hawser::testing {

/// A stream for one rank's communicator; must outlive it.
struct FakeStream {
  /// If set, the next poll fails with this text, as if the GPU had failed.
  const char* fault = nullptr;
  std::deque<std::function<bool()>> work;

  /// Events are flags: `event_of(flag)` is complete once the flag is set.
  static device::Event* event_of(bool* flag) { return reinterpret_cast<device::Event*>(flag); }
  /// Returns an event that is complete once the stream is idle. A null event is always complete.
  static device::Event* idle() { return event_of(&idle_); }
  comm::nccl::StreamUse use();

 private:
  static inline bool idle_ = false;
};

}  // namespace hawser::testing
