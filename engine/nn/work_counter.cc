#include "engine/nn/work_counter.h"

#include "engine/nn/kernel_work.h"
#include "kernels/include/each_kernel.h"

namespace hawser::nn {

template <typename Args>
void WorkCounter::count(const Args& args, Stream& stream) {
  auto& counting = reinterpret_cast<CountingStream&>(stream);
  const KernelWork work = work_of(args);
  add_calls(&counting.calls, calls_of(work));
  if (counting.notes) counting.notes->flops += work.flops;
}

WorkCounter::WorkCounter(const kernels::KernelTable& real, int32_t workers, ExchangeNotes* notes)
    : table_(real), stream_{{nullptr, workers}, notes, {}} {
  kernels::each_kernel([&]<auto kKernel>() { wrap<kKernel>(real.*kKernel); });
}

double WorkCounter::flops() const {
  double flops = 0;
  for (const KernelCalls& calls : stream_.calls) flops += calls.flops;
  return flops;
}

}  // namespace hawser::nn
