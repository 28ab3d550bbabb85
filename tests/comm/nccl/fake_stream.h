// A stream without a GPU: it runs its work when it is polled.
#pragma once

#include <deque>
#include <functional>

#include "engine/comm/nccl/communicator.h"

namespace hawser::testing {

/// For one rank's communicator; must outlive it.
struct FakeStream {
  /// If set, the next poll fails with this text, as if the GPU had failed.
  const char* fault = nullptr;
  std::deque<std::function<bool()>> work;

  /// Events are flags: `event_of(flag)` is complete once the flag is set.
  static device::Event* event_of(bool* flag) { return reinterpret_cast<device::Event*>(flag); }
  /// Complete once the stream is idle. Null is complete always.
  static device::Event* idle() { return event_of(&idle_); }
  comm::nccl::StreamUse use();

 private:
  static inline bool idle_ = false;
};

}  // namespace hawser::testing
