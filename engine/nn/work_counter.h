// WorkCounter: a kernel table whose kernels compute nothing, and a stream on which their calls are counted.
// Code that runs with both gives its work without touching memory.
#pragma once

#include "engine/base/exchange_note.h"
#include "engine/base/kernel_calls.h"
#include "kernels/include/table.h"

namespace hawser::nn {

class WorkCounter {
 public:
  /// A copy of `real`, whose functions for the size of workspaces stay. `notes`, if given, also counts the
  /// FLOPs between exchanges.
  WorkCounter(const kernels::KernelTable& real, int32_t workers, ExchangeNotes* notes = nullptr);
  WorkCounter(const WorkCounter&) = delete;
  WorkCounter& operator=(const WorkCounter&) = delete;

  const kernels::KernelTable& table() const { return table_; }
  Stream& stream() { return stream_.base; }
  /// The address of every array: not null, and never used.
  static void* fake() { return reinterpret_cast<void*>(uintptr_t{4096}); }
  static float* fake_floats() { return static_cast<float*>(fake()); }

  void clear() { stream_.calls.clear(); }
  const WorkList& calls() const { return stream_.calls; }
  double flops() const;

 private:
  struct CountingStream {
    Stream base;
    ExchangeNotes* notes = nullptr;
    WorkList calls;
  };
  template <typename Args>
  static void count(const Args& args, Stream& stream);
  template <auto kKernel, typename Args>
  void wrap(void (*)(const Args&, Stream&)) {
    table_.*kKernel = count<Args>;
  }

  kernels::KernelTable table_;
  CountingStream stream_;
};

}  // namespace hawser::nn
