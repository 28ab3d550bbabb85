// Stream: where a kernel runs. The CPU stream hands tasks to the engine's thread pool (engine/device/cpu); a
// kernel sees only this interface. It includes no C++ library header, because kernels of CPU levels include
// it.
#pragma once

#include <stdint.h>

namespace hawser {

/// One task of a parallel loop. `worker` is in [0, num_workers) and no two running tasks share it.
using TaskFn = void (*)(void* arg, int64_t task, int32_t worker);

struct Stream {
  /// Calls fn(arg, t, worker) once for each t in [0, tasks), in any order on any worker; returns when all are
  /// done. Results must not depend on which worker ran a task. Allocates nothing, never fails.
  void (*run)(Stream* self, int64_t tasks, TaskFn fn, void* arg);
  int32_t num_workers;
};

}  // namespace hawser
