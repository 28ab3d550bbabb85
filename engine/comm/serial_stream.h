// SerialStream: runs tasks one after another on the calling thread, for sums on the progress thread.
#pragma once

#include "engine/base/stream.h"

namespace hawser::comm {

struct SerialStream : Stream {
  SerialStream() : Stream{&SerialStream::run_tasks, 1} {}

 private:
  static void run_tasks(Stream*, int64_t tasks, TaskFn fn, void* arg) {
    for (int64_t task = 0; task < tasks; ++task) fn(arg, task, 0);
  }
};

}  // namespace hawser::comm
