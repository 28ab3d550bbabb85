#include "engine/parallel/block_wire.h"

#include <algorithm>
#include <numeric>

#include "engine/base/steady_clock.h"
#include "engine/comm/comm.h"

namespace hawser::parallel {

using comm::Operation;

namespace {

/// Returns a reduction whose addends and sum are of `type`.
comm::Reduction sum_in(DType type) {
  comm::Reduction sum;
  sum.wire = sum.round_to = sum.in_type = sum.out_type = type;
  return sum;
}

}  // namespace

void BlockWire::count(Operation operation, int64_t sent, int64_t bytes) {
  note(operation, sent);
  most_bytes_ = std::max(most_bytes_, bytes);
}

void BlockWire::all_reduce(void* data, DType type, int64_t elements) {
  const int64_t share = (elements + ranks_ - 1) / ranks_;
  count(Operation::kAllReduce, 2 * (ranks_ - 1) * share * dtype_bytes(type), elements * dtype_bytes(type));
  most_sum_bytes_ = std::max(most_sum_bytes_, comm::device_staging_bytes(share, ranks_, sum_in(type)));
  carry_all_reduce(data, type, elements);
}

void BlockWire::all_gather(void* full, const void* shard, DType type, int64_t elements) {
  const int64_t bytes = elements * dtype_bytes(type);
  count(Operation::kAllGather, (ranks_ - 1) * bytes, (ranks_ + 1) * bytes);
  carry_all_gather(full, shard, type, elements);
}

void BlockWire::reduce_scatter(float* shard, const float* full, int64_t elements) {
  const int64_t bytes = elements * dtype_bytes(DType::kF32);
  count(Operation::kReduceScatter, (ranks_ - 1) * bytes, (ranks_ + 1) * bytes);
  most_sum_bytes_ =
      std::max(most_sum_bytes_, comm::device_staging_bytes(elements, ranks_, sum_in(DType::kF32)));
  carry_reduce_scatter(shard, full, elements);
}

void BlockWire::shift(void* in, const void* out, DType type, int64_t elements) {
  const int64_t bytes = elements * dtype_bytes(type);
  count(Operation::kAllToAll, bytes, 2 * bytes);
  carry_shift(in, out, bytes);
}

void BlockWire::all_to_all(void* in, const void* out, DType type, int64_t elements) {
  const int64_t bytes = elements * dtype_bytes(type);
  count(Operation::kAllToAll, (ranks_ - 1) * bytes, 2 * ranks_ * bytes);
  carry_all_to_all(in, out, bytes);
}

void BlockWire::all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                             const std::vector<int64_t>& out_bytes) {
  int64_t to_others = 0, from_others = 0, bytes = 0;
  for (int64_t r = 0; r < ranks_; ++r) {
    const auto member = static_cast<size_t>(r);
    if (r != rank_) to_others += out_bytes[member], from_others += in_bytes[member];
    bytes += in_bytes[member] + out_bytes[member];
  }
  // Without balance, the busiest rank receives more than it sends, so its receives take longer.
  const int64_t noted = dry() ? std::max(to_others, from_others) : to_others;
  if (noted > 0) note(Operation::kAllToAll, noted);
  most_bytes_ = std::max(most_bytes_, bytes);
  carry_all_to_all_v(in, in_bytes, out, out_bytes);
}

void BlockWire::gather_to_host(int32_t* host, int32_t* full, const int32_t* shard, int64_t elements) {
  const int64_t bytes = elements * int64_t{sizeof(int32_t)};
  count(Operation::kAllGather, (ranks_ - 1) * bytes, (ranks_ + 1) * bytes);
  carry_gather_to_host(host, full, shard, elements);
}

void BlockWire::broadcast(void* data, DType type, int64_t elements, int64_t root) {
  const int64_t bytes = elements * dtype_bytes(type);
  count(Operation::kBroadcast, rank_ == root ? bytes : 0, bytes);
  carry_broadcast(data, bytes, root);
}

void BlockWire::finish() { await(begun_); }

/// Lets the other task run first; it may begin calls of its own before this call is awaited.
void BlockWire::finish_overlapped() {
  const comm::Work call = begun_;
  if (fibers_ != nullptr) fibers_->yield();
  await(call);
}

void BlockWire::await(comm::Work call) {
  const double begin = steady_seconds();
  carry_finish(call);
  waited_ += steady_seconds() - begin;
}

void BlockWire::settle() noexcept {
  try {
    if (begun_.ticket != 0) carry_finish(begun_);
  } catch (...) {  // the call is over, and its error has been reported
  }
}

RingBytes::RingBytes(int64_t rank, int64_t ranks)
    : next_((rank + 1) % ranks),
      previous_((rank + ranks - 1) % ranks),
      to_next_(static_cast<size_t>(ranks)),
      from_previous_(static_cast<size_t>(ranks)) {}

comm::Work RingBytes::shift(comm::ProcessGroup* group, void* in, const void* out, int64_t bytes) {
  to_next_[static_cast<size_t>(next_)] = from_previous_[static_cast<size_t>(previous_)] = bytes;
  return group->all_to_all_v(in, from_previous_, out, to_next_);
}

DeviceWire::DeviceWire(comm::ProcessGroup* group, device::HostLink* link)
    : BlockWire(group->rank(), group->size()), group_(*group), link_(*link), ring_(rank(), ranks()) {}

/// Orders the compute stream after the call; if the call is only begun, its finish does that.
void DeviceWire::give(comm::Work work) {
  has_begun(work);
  if (!begins()) group_.follow(work);
}

void DeviceWire::carry_all_reduce(void* data, DType type, int64_t elements) {
  const comm::AllReducePiece piece{data, data, elements};
  give(group_.all_reduce({&piece, 1}, sum_in(type)));
}

void DeviceWire::carry_all_gather(void* full, const void* shard, DType type, int64_t elements) {
  const comm::GatherPiece piece{full, shard, elements};
  give(group_.all_gather({&piece, 1}, type));
}

void DeviceWire::carry_reduce_scatter(float* shard, const float* full, int64_t elements) {
  const comm::ReducePiece piece{shard, full, elements};
  give(group_.reduce_scatter({&piece, 1}, sum_in(DType::kF32)));
}

void DeviceWire::carry_shift(void* in, const void* out, int64_t bytes) {
  give(ring_.shift(&group_, in, out, bytes));
}

void DeviceWire::carry_all_to_all(void* in, const void* out, int64_t bytes) {
  give(group_.all_to_all(in, out, bytes));
}

void DeviceWire::carry_all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                                    const std::vector<int64_t>& out_bytes) {
  give(group_.all_to_all_v(in, in_bytes, out, out_bytes));
}

/// Waits for the call first, so that its errors are thrown before its result is read.
void DeviceWire::carry_gather_to_host(int32_t* host, int32_t* full, const int32_t* shard, int64_t elements) {
  const comm::GatherPiece piece{full, shard, elements};
  const comm::Work work = group_.all_gather({&piece, 1}, DType::kI32);
  group_.follow(work);
  link_.fetch(host, full, ranks() * elements * int64_t{sizeof(int32_t)});
  group_.wait(work);
  link_.wait();
}

void DeviceWire::carry_broadcast(void* data, int64_t bytes, int64_t root) {
  give(group_.broadcast(data, bytes, static_cast<int32_t>(root)));
}

GroupWire::GroupWire(comm::ProcessGroup* group, device::HostLink* link, char* staging)
    : BlockWire(group->rank(), group->size()),
      group_(*group),
      link_(*link),
      staging_(staging),
      ring_(rank(), ranks()) {
  reduced_.reserve(kMostBegun), scattered_.reserve(kMostBegun);
}

/// True if the call is to be finished later. Calls through staging memory are not: it has room for one.
bool GroupWire::begins_in_place() { return begins() && staging_ == nullptr; }

void GroupWire::carry_finish(comm::Work call) {
  group_.wait(call);
  reduced_.clear(), scattered_.clear();
}

/// Returns the host's address of data of the device: at an offset of the staging memory, or in place.
char* GroupWire::host_of(const void* data, int64_t offset) const {
  return staging_ != nullptr ? staging_ + offset : static_cast<char*>(const_cast<void*>(data));
}

/// Sends data back and waits, because the staging memory is free only once the device has read it.
void GroupWire::send_back(void* data, const char* host, int64_t bytes) {
  link_.send(data, host, bytes);
  link_.wait_sent();
}

void GroupWire::carry_all_reduce(void* data, DType type, int64_t elements) {
  if (begins_in_place()) {
    HWS_CHECK(reduced_.size() < kMostBegun);
    reduced_.push_back({data, data, elements});
    return has_begun(group_.all_reduce({&reduced_.back(), 1}, sum_in(type)));
  }
  const int64_t bytes = elements * dtype_bytes(type);
  char* const host = host_of(data, 0);
  link_.fetch(host, data, bytes);
  link_.wait();
  const comm::AllReducePiece piece{host, host, elements};
  group_.wait(group_.all_reduce({&piece, 1}, sum_in(type)));
  send_back(data, host, bytes);
}

void GroupWire::carry_all_gather(void* full, const void* shard, DType type, int64_t elements) {
  const int64_t bytes = elements * dtype_bytes(type);
  char *const host = host_of(full, 0), *const own = host_of(shard, ranks() * bytes);
  link_.fetch(own, shard, bytes);
  link_.wait();
  const comm::GatherPiece piece{host, own, elements};
  group_.wait(group_.all_gather({&piece, 1}, type));
  send_back(full, host, ranks() * bytes);
}

void GroupWire::carry_reduce_scatter(float* shard, const float* full, int64_t elements) {
  if (begins_in_place()) {
    HWS_CHECK(scattered_.size() < kMostBegun);
    scattered_.push_back({shard, full, elements});
    return has_begun(group_.reduce_scatter({&scattered_.back(), 1}, sum_in(DType::kF32)));
  }
  const int64_t bytes = elements * dtype_bytes(DType::kF32);
  char *const host = host_of(full, 0), *const own = host_of(shard, ranks() * bytes);
  link_.fetch(host, full, ranks() * bytes);
  link_.wait();
  const comm::ReducePiece piece{own, host, elements};
  group_.wait(group_.reduce_scatter({&piece, 1}, sum_in(DType::kF32)));
  send_back(shard, own, bytes);
}

void GroupWire::carry_shift(void* in, const void* out, int64_t bytes) {
  char *const host = host_of(in, 0), *const own = host_of(out, bytes);
  link_.fetch(own, out, bytes);
  link_.wait();
  const bool begun = begins_in_place();
  const comm::Work call = ring_.shift(&group_, host, own, bytes);
  has_begun(call);
  if (begun) return;
  group_.wait(call);
  send_back(in, host, bytes);
}

void GroupWire::carry_all_to_all(void* in, const void* out, int64_t bytes) {
  char *const host = host_of(in, 0), *const own = host_of(out, ranks() * bytes);
  link_.fetch(own, out, ranks() * bytes);
  link_.wait();
  group_.wait(group_.all_to_all(host, own, bytes));
  send_back(in, host, ranks() * bytes);
}

void GroupWire::carry_all_to_all_v(void* in, const std::vector<int64_t>& in_bytes, const void* out,
                                   const std::vector<int64_t>& out_bytes) {
  const int64_t received = std::accumulate(in_bytes.begin(), in_bytes.end(), int64_t{0});
  const int64_t sent = std::accumulate(out_bytes.begin(), out_bytes.end(), int64_t{0});
  char *const host = host_of(in, 0), *const own = host_of(out, received);
  link_.fetch(own, out, sent);
  link_.wait();
  const bool begun = begins_in_place();
  const comm::Work call = group_.all_to_all_v(host, in_bytes, own, out_bytes);
  has_begun(call);
  if (begun) return;
  group_.wait(call);
  send_back(in, host, received);
}

/// Leaves the gathered numbers in host memory, because only the host reads them.
void GroupWire::carry_gather_to_host(int32_t* host, int32_t* /*full*/, const int32_t* shard,
                                     int64_t elements) {
  char* const own = host_of(shard, 0);
  link_.fetch(own, shard, elements * int64_t{sizeof(int32_t)});
  link_.wait();
  const comm::GatherPiece piece{host, own, elements};
  group_.wait(group_.all_gather({&piece, 1}, DType::kI32));
}

void GroupWire::carry_broadcast(void* data, int64_t bytes, int64_t root) {
  char* const host = host_of(data, 0);
  if (rank() == root) link_.fetch(host, data, bytes);
  link_.wait();
  group_.wait(group_.broadcast(host, bytes, static_cast<int32_t>(root)));
  if (rank() != root) send_back(data, host, bytes);
}

}  // namespace hawser::parallel
