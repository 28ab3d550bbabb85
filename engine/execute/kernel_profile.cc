#include "engine/execute/kernel_profile.h"

#include <algorithm>

#include "engine/comm/gate.h"
#include "kernels/include/each_kernel.h"

namespace hawser::train {
namespace {

/// Maximum number of rows. Once it is reached, calls of new classes are added to the last row.
constexpr size_t kMostRows = 128;

}  // namespace

template <auto kKernel, typename Args>
void KernelProfile::timed(const Args& args, Stream& stream) {
  const ProfiledStream& profiled = reinterpret_cast<ProfiledStream&>(stream);
  KernelProfile& profile = *profiled.profile;
  if (profile.clock_) {
    profile.begin_on_device(nn::work_of(args));
    (profile.real_.*kKernel)(args, *profiled.real);
    profile.clock_->end();
    return;
  }
  const double begin = steady_seconds();
  (profile.real_.*kKernel)(args, *profiled.real);
  profile.note(nn::work_of(args), begin, steady_seconds());
}

KernelProfile::KernelProfile(device::Device& device, size_t calls_per_step)
    : real_(device.kernels()), table_(device.kernels()) {
  Stream& stream = device.stream(device::StreamId::kCompute);
  const auto run = [](Stream* self, int64_t tasks, TaskFn fn, void* arg) {
    Stream* const to = reinterpret_cast<ProfiledStream*>(self)->real;
    to->run(to, tasks, fn, arg);
  };
  stream_ = {{run, stream.num_workers}, &stream, this};
  calls_.reserve(calls_per_step);
  rows_.reserve(kMostRows);
  kernels::each_kernel([&]<auto kKernel>() { wrap<kKernel>(real_.*kKernel); });
  if (device.info().kind == device::Kind::kCpu) return;
  clock_ = std::make_unique<DeviceClock>(device);
  queued_.reserve(DeviceClock::kMostSpans);
}

void KernelProfile::begin_step() {
  calls_.clear();
  queued_.clear();  // calls of a step that failed
  if (clock_) clock_->start();
}

void KernelProfile::begin_on_device(const nn::KernelWork& work) {
  if (queued_.size() == DeviceClock::kMostSpans) settle();
  queued_.push_back(work);
  clock_->begin();
}

void KernelProfile::settle() {
  for (size_t i = 0; i < queued_.size(); ++i) {
    const DeviceClock::Span span = clock_->span(i);
    note(queued_[i], span.begin, span.end);
  }
  queued_.clear();
  if (clock_) clock_->clear();
}

void KernelProfile::note(const nn::KernelWork& work, double begin, double end) {
  if (calls_.size() < calls_.capacity()) calls_.push_back({work, begin, end});
  const KernelCalls calls = nn::calls_of(work);
  auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.sums.same_class(calls); });
  const bool is_new = row == rows_.end() && rows_.size() < kMostRows;
  if (is_new) row = rows_.insert(row, {calls});
  if (row == rows_.end()) --row;
  if (!is_new) row->sums.add(calls);
  row->seconds += end - begin;
}

}  // namespace hawser::train
