#include "engine/execute/transfers_in_flight.h"

#include <algorithm>
#include <exception>

#include "engine/parallel/host_update.h"

namespace hawser::train {

using parallel::OffloadStore;
using plan::Lane;

void TransfersInFlight::begin(const plan::Plan& plan, size_t first, bool continues) {
  works_.resize(std::max(works_.size(), plan.instructions.size()));
  first_ = done_ = host_done_ = plan.over_before(first);
  if (!continues) started_ = first_;
  started_.raise_to(first_);
  awaited_at_border_ = first_;
}

/// A transfer that sends nothing ends at once, but earlier transfers of its lane may still be running. A wait
/// for it must also wait for the earlier ones, so start returns the work of the transfer before it.
comm::Work TransfersInFlight::start(const plan::Plan& plan, size_t index) {
  const plan::Instruction& n = plan.instructions[index];
  const bool moves = plan::is_move(n.op);
  comm::Work work = moves ? move(plan, n) : runtime_->start(plan, index);
  if (!moves && work.ticket == 0 && started_[n.lane] > first_[n.lane])
    work = works_[static_cast<size_t>(started_[n.lane])];
  started_[n.lane] = static_cast<int32_t>(index);
  if (!plan.crosses(index)) awaited_at_border_[n.lane] = static_cast<int32_t>(index);
  return works_[index] = work;
}

comm::Work TransfersInFlight::move(const plan::Plan& plan, const plan::Instruction& n) {
  const plan::Slot &from = plan.slot(n[plan::Operand::kSent]), &to = plan.slot(n[plan::Operand::kReceived]);
  const bool out = n.op == plan::Op::kOffload;
  const plan::Slot &inside = out ? from : to, &outside = out ? to : from;
  OffloadStore* const store = outside_.store(n.lane);
  comm::Work work{};
  parallel::each_moved_part(plan, n, layout_, [&](const parallel::MovedPart& part) {
    work.ticket = store->start(OffloadStore::way_of(n.lane), arena_ + inside.offset + part.inside,
                               outside.offset + part.outside, part.bytes);
  });
  return work;
}

void TransfersInFlight::follow(Lane lane, comm::Work work) {
  if (lane == Lane::kHost) return;  // this thread has executed it
  if (!is_own(lane)) return runtime_->follow(lane, work);
  outside_.store(lane)->follow(OffloadStore::way_of(lane), work.ticket);
}

void TransfersInFlight::wait(Lane lane, comm::Work work) {
  if (lane == Lane::kHost) return;
  if (!is_own(lane)) return runtime_->wait(lane, work);
  outside_.store(lane)->wait(OffloadStore::way_of(lane), work.ticket);
}

bool TransfersInFlight::follow(const plan::LaneMarks& transfers) {
  if (transfers.covered_by(done_)) return false;
  for (size_t l = 0; l < plan::kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (transfers[lane] <= done_[lane]) continue;
    follow(lane, works_[static_cast<size_t>(transfers[lane])]);
  }
  done_.raise_to(transfers);
  return true;
}

void TransfersInFlight::await_on_host(const plan::LaneMarks& transfers) {
  for (size_t l = 0; l < plan::kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (transfers[lane] > host_done_[lane]) wait(lane, works_[static_cast<size_t>(transfers[lane])]);
  }
  host_done_.raise_to(transfers);
}

/// Failures reach the host here at the latest. Every lane is awaited, because each uses memory of this rank.
void TransfersInFlight::finish(const plan::LaneMarks& these) {
  std::exception_ptr failure;
  const auto unless_failed = [&](const auto& fn) {
    try {
      fn();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  unless_failed([&] { follow(these); });
  for (size_t l = 0; l < plan::kLanes; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (these[lane] > first_[lane])
      unless_failed([&] { wait(lane, works_[static_cast<size_t>(these[lane])]); });
    else if (started_[lane] > first_[lane])
      unless_failed([&] { outside_.store(lane)->throw_failure(); });
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace hawser::train
