// NCCL between threads of one process, over host memory: as much of it as engine/comm/nccl uses, with its
// ways of not answering. Calls return at once; data moves when a stream is polled.
#pragma once

#include <cstdint>

#include "engine/comm/nccl/communicator.h"

namespace hawser::testing {

const comm::nccl::Api& fake_nccl();

/// A stream for one rank's communicator; must outlive it.
struct FakeStream {
  /// Of the GPU: the next poll fails with this text.
  const char* fault = nullptr;
  struct Work;
  Work* work = nullptr;  ///< under way

  ~FakeStream();
  comm::nccl::StreamUse use();
};

/// Communicators that were made and neither destroyed nor aborted.
int64_t fake_communicators();

}  // namespace hawser::testing
