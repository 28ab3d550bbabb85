#include "tests/planner/waiting_kernels.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/base/steady_clock.h"
#include "engine/cluster/kernel_seconds.h"
#include "engine/nn/kernel_work.h"
#include "kernels/include/each_kernel.h"
#include "kernels/include/levels.h"

// The linker renames the library's function to __real_ and all calls of it to __wrap_.
#define HWS_CPU_KERNELS(prefix) prefix##_ZN6hawser7kernels11cpu_kernelsENS0_8CpuLevelE
extern "C" const hawser::kernels::KernelTable& HWS_CPU_KERNELS(__real_)(hawser::kernels::CpuLevel level);

namespace hawser::testing {
namespace {

std::atomic<const cluster::DeviceRates*> waits_as{nullptr};
kernels::KernelTable real, waiting;

/// Sleeps until `seconds` after `begin`. If a thread sleeps too long, its next sleeps are shorter.
void sleep_until(double begin, double seconds) {
  thread_local double debt = [] {
    prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds
    return 0.0;
  }();
  const double end = begin + seconds - debt, now = steady_seconds();
  if (end > now) std::this_thread::sleep_for(std::chrono::duration<double>(end - now));
  debt = std::max(0.0, steady_seconds() - end);
}

template <auto kKernel, typename Args>
void waited(const Args& args, Stream& stream) {
  const cluster::DeviceRates* const device = waits_as.load();
  const double begin = steady_seconds();
  (real.*kKernel)(args, stream);
  if (device) sleep_until(begin, cluster::seconds_of(*device, nn::calls_of(nn::work_of(args)), false));
}

template <auto kKernel, typename Args>
void wrap(void (*)(const Args&, Stream&)) {
  waiting.*kKernel = waited<kKernel, Args>;
}

}  // namespace

void wait_as(const cluster::DeviceRates* device) { waits_as = device; }

}  // namespace hawser::testing

extern "C" const hawser::kernels::KernelTable& HWS_CPU_KERNELS(__wrap_)(hawser::kernels::CpuLevel level) {
  using namespace hawser::testing;
  static const bool made = [&] {
    real = waiting = HWS_CPU_KERNELS(__real_)(level);
    hawser::kernels::each_kernel([&]<auto kKernel>() { wrap<kKernel>(real.*kKernel); });
    waiting.ordered_sum = real.ordered_sum;  // used by the transport, whose sums take no time in predictions
    return true;
  }();
  (void)made;
  return waiting;
}
