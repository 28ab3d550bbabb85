#include "engine/train/kernel_profile.h"

#include <algorithm>

#include "engine/comm/gate.h"

namespace hawser::train {
namespace {

/// Classes of calls that are told apart; all further ones share the last row.
constexpr size_t kMostRows = 128;

}  // namespace

template <auto kKernel, typename Args>
void KernelProfile::timed(const Args& args, Stream& stream) {
  const ProfiledStream& profiled = reinterpret_cast<ProfiledStream&>(stream);
  const double begin = comm::steady_seconds();
  (profiled.profile->real_.*kKernel)(args, *profiled.real);
  profiled.profile->note(nn::work_of(args), begin, comm::steady_seconds());
}

KernelProfile::KernelProfile(const kernels::KernelTable& real, Stream& stream, size_t calls_per_step)
    : real_(real), table_(real) {
  using Table = kernels::KernelTable;
  const auto run = [](Stream* self, int64_t tasks, TaskFn fn, void* arg) {
    Stream* const to = reinterpret_cast<ProfiledStream*>(self)->real;
    to->run(to, tasks, fn, arg);
  };
  stream_ = {{run, stream.num_workers}, &stream, this};
  calls_.reserve(calls_per_step);
  rows_.reserve(kMostRows);
  wrap<&Table::matmul>(real.matmul);
  wrap<&Table::embedding_forward>(real.embedding_forward);
  wrap<&Table::embedding_backward>(real.embedding_backward);
  wrap<&Table::norm_forward>(real.norm_forward);
  wrap<&Table::norm_backward>(real.norm_backward);
  wrap<&Table::activation_forward>(real.activation_forward);
  wrap<&Table::activation_backward>(real.activation_backward);
  wrap<&Table::rope>(real.rope);
  wrap<&Table::residual_forward>(real.residual_forward);
  wrap<&Table::residual_backward>(real.residual_backward);
  wrap<&Table::attention_forward>(real.attention_forward);
  wrap<&Table::attention_backward>(real.attention_backward);
  wrap<&Table::cross_entropy>(real.cross_entropy);
  wrap<&Table::soft_cap>(real.soft_cap);
  wrap<&Table::column_sum>(real.column_sum);
  wrap<&Table::sum_of_squares>(real.sum_of_squares);
  wrap<&Table::add>(real.add);
  wrap<&Table::convert>(real.convert);
  wrap<&Table::ordered_sum>(real.ordered_sum);
  wrap<&Table::adamw>(real.adamw);
  wrap<&Table::sgd>(real.sgd);
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
