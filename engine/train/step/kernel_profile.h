// KernelProfile: a kernel table that wraps another and notes of every call what it did and how long it took:
// sums over steps by kernel and shape, and the single calls of the last step for a trace. An executor that is
// not profiled uses the table itself and pays nothing. What is launched as a graph would be seen once, when
// it is captured: so under a profile (and any trace) steps run without graphs.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/nn/kernel_work.h"

namespace hawser::train {

class KernelProfile {
 public:
  /// One call of the last step, in seconds of the steady clock.
  struct Call {
    nn::KernelWork work;
    double begin = 0, end = 0;
  };
  /// All calls of one class; `work` is that of one of them, flops and bytes are of all together.
  struct Row {
    nn::KernelWork work;
    int64_t calls = 0;
    double seconds = 0, flops = 0, bytes = 0;
  };

  /// `real` and `stream` outlive the profile. Takes all memory now; single calls beyond calls_per_step are
  /// counted in `rows` only.
  KernelProfile(const kernels::KernelTable& real, Stream& stream, size_t calls_per_step);
  KernelProfile(const KernelProfile&) = delete;
  KernelProfile& operator=(const KernelProfile&) = delete;

  /// What to compute with instead of the real ones. For one thread at a time.
  const kernels::KernelTable& table() const { return table_; }
  Stream& stream() { return stream_.base; }

  void begin_step() { calls_.clear(); }
  void clear_sums() { rows_.clear(); }

  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  /// The real stream's tasks under the wrapper's name: how a wrapped kernel finds its profile.
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

  const kernels::KernelTable& real_;
  kernels::KernelTable table_;
  ProfiledStream stream_;
  std::vector<Call> calls_;
  std::vector<Row> rows_;
};

}  // namespace hawser::train
