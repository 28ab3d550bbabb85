// KernelProfile: a kernel table that wraps another and records what each call did and how long it took: sums
// over steps by kernel and shape, and the single calls of the last step for a trace. Without a profile the
// executor uses the real table, at no cost. A graph would be seen only once, when it is captured, so profiled
// and traced steps run without graphs.
//
// A CPU kernel is done when its call returns, so the host's clock times it. A GPU kernel is then only queued,
// so events of the device before and after each call time it (DeviceClock). If the GPU is faster than the
// host that queues work, a call's time includes the wait for the host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/execute/device_clock.h"
#include "engine/nn/kernel_work.h"

namespace hawser::train {

class KernelProfile {
 public:
  /// One call of the last step; times in seconds of the steady clock.
  struct Call {
    nn::KernelWork work;
    double begin = 0, end = 0;
  };
  /// All calls of one class.
  struct Row {
    KernelCalls sums;
    double seconds = 0;
  };

  /// Profiles the kernels that run on the device's compute stream; the device must outlive the profile.
  /// Allocates all memory here. Single calls beyond calls_per_step are only counted in `rows`.
  KernelProfile(device::Device& device, size_t calls_per_step);
  KernelProfile(const KernelProfile&) = delete;
  KernelProfile& operator=(const KernelProfile&) = delete;

  /// Returns the table to use in place of the real one. Only one thread may use it at a time.
  const kernels::KernelTable& table() const { return table_; }
  Stream& stream() { return stream_.base; }

  /// Drops the calls of the last step. Throws the device's error.
  void begin_step();
  /// Waits for the calls that the device has not reported yet, and adds them. Throws the device's error.
  void settle();
  void clear_sums() { rows_.clear(); }

  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  /// A stream that forwards to the real one. A wrapped kernel finds its profile through it.
  struct ProfiledStream {
    Stream base;
    Stream* real;
    KernelProfile* profile;
  };
  template <auto kKernel, typename Args>
  static void timed(const Args& args, Stream& stream);
  template <auto kKernel, typename Args>
  void wrap(void (*)(const Args&, Stream&)) {
    table_.*kKernel = timed<kKernel, Args>;
  }
  void note(const nn::KernelWork& work, double begin, double end);
  void begin_on_device(const nn::KernelWork& work);

  const kernels::KernelTable& real_;
  kernels::KernelTable table_;
  ProfiledStream stream_;
  std::vector<Call> calls_;
  std::vector<Row> rows_;
  std::unique_ptr<DeviceClock> clock_;  ///< null on the CPU
  std::vector<nn::KernelWork> queued_;  ///< calls that the clock has timed since it was last read
};

}  // namespace hawser::train
