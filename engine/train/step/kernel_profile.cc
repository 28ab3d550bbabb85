#include "engine/train/step/kernel_profile.h"

#include <algorithm>

#include "engine/comm/gate.h"
#include "kernels/include/each_kernel.h"

namespace hawser::train {
namespace {

/// Number of distinct classes of calls; all further ones share the last row.
constexpr size_t kMostRows = 128;

}  // namespace

template <auto kKernel, typename Args>
void KernelProfile::timed(const Args& args, Stream& stream) {
  const ProfiledStream& profiled = reinterpret_cast<ProfiledStream&>(stream);
  const double begin = steady_seconds();
  (profiled.profile->real_.*kKernel)(args, *profiled.real);
  profiled.profile->note(nn::work_of(args), begin, steady_seconds());
}

KernelProfile::KernelProfile(const kernels::KernelTable& real, Stream& stream, size_t calls_per_step)
    : real_(real), table_(real) {
  const auto run = [](Stream* self, int64_t tasks, TaskFn fn, void* arg) {
    Stream* const to = reinterpret_cast<ProfiledStream*>(self)->real;
    to->run(to, tasks, fn, arg);
  };
  stream_ = {{run, stream.num_workers}, &stream, this};
  calls_.reserve(calls_per_step);
  rows_.reserve(kMostRows);
  kernels::each_kernel([&]<auto kKernel>() { wrap<kKernel>(real.*kKernel); });
}

void KernelProfile::note(const nn::KernelWork& work, double begin, double end) {
  if (calls_.size() < calls_.capacity()) calls_.push_back({work, begin, end});
  auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.work.same_class(work); });
  if (row == rows_.end()) {
    if (rows_.size() < kMostRows) rows_.push_back({work});
    row = rows_.end() - 1;
  }
  ++row->calls;
  row->seconds += end - begin;
  row->flops += work.flops;
  row->bytes += work.bytes;
}

}  // namespace hawser::train
