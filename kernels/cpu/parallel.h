// Parallel loops over a lambda. They have internal linkage, like all code that is compiled once per level.
#pragma once

#include "engine/base/stream.h"

namespace hawser::kernels::HWS_LEVEL {
namespace {

/// Calls body(task, worker) for each task in [0, tasks) on the stream's workers; returns when all are done.
template <class Body>
inline void parallel(Stream& stream, int64_t tasks, const Body& body) {
  if (tasks <= 0) return;
  stream.run(
      &stream, tasks,
      [](void* arg, int64_t task, int32_t worker) { (*static_cast<const Body*>(arg))(task, worker); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Calls body(begin, end) over consecutive ranges of at most `grain` items that cover [0, items). The ranges
/// do not depend on the number of workers.
template <class Body>
inline void parallel_ranges(Stream& stream, int64_t items, int64_t grain, const Body& body) {
  parallel(stream, (items + grain - 1) / grain, [&](int64_t task, int32_t) {
    const int64_t begin = task * grain;
    body(begin, begin + grain < items ? begin + grain : items);
  });
}

}  // namespace
}  // namespace hawser::kernels::HWS_LEVEL
