#include "engine/comm/progress.h"
#include "engine/base/signals_blocked.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

namespace hawser::comm {

Progress::Progress(Transport& transport, int32_t spins, Finished finished, void* user)
    : transport_(transport), spins_(spins), finished_(finished), user_(user), queue_(kQueue) {
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { main_loop(); });
  } catch (const std::system_error& e) {
    fail(Code::kUnavailable,
         "cannot make the communication thread of rank {}: {}; raise the limit on threads", transport.rank(),
         e.what());
  }
  pthread_setname_np(thread_.native_handle(),
                     fmt::format("hws-comm-{}", transport.rank()).substr(0, 15).c_str());
}

Progress::~Progress() {
  if (!idle()) {
    transport_.abort(
        Error(Code::kUnavailable, fmt::format("rank {} ended with calls in flight", transport_.rank())));
  }
  stop_.store(true);
  asked_.notify();
  thread_.join();
}

uint64_t Progress::push(Call call) {
  transport_.fault().raise_if_set();
  const uint64_t ticket = issued_.load(std::memory_order_relaxed) + 1;
  answered_.wait_until(kNoDeadline, spins_, [&] { return ticket - retired_.load() <= kQueue; });
  call.ticket = ticket;
  call.issued = steady_seconds();
  queue_[(ticket - 1) % kQueue] = call;
  issued_.store(ticket, std::memory_order_seq_cst);
  asked_.notify();
  return ticket;
}

void Progress::wait(uint64_t ticket) {
  if (ticket == 0) return;
  if (ticket > issued_.load(std::memory_order_relaxed)) {
    fail(Code::kInvalidArgument, "no call with ticket {} was issued on rank {}", ticket, transport_.rank());
  }
  answered_.wait_until(kNoDeadline, spins_, [&] { return retired_.load() >= ticket; });
  if (ticket >= first_failed_.load()) throw transport_.fault().error();
}

bool Progress::done(uint64_t ticket) const { return retired_.load() >= ticket; }

int64_t Progress::take_records(Record* out, int64_t most) {
  const std::lock_guard lock(records_mutex_);
  taken_ = std::max(taken_, recorded_ - std::min(recorded_, kRecords));
  const uint64_t count =
      std::min<uint64_t>(recorded_ - taken_, static_cast<uint64_t>(std::max<int64_t>(most, 0)));
  for (uint64_t i = 0; i < count; ++i) out[i] = records_[(taken_ + i) % kRecords];
  taken_ += count;
  return static_cast<int64_t>(count);
}

void Progress::main_loop() {
  for (;;) {
    const uint64_t next = retired_.load(std::memory_order_relaxed) + 1;
    asked_.wait_until(kNoDeadline, spins_, [&] { return issued_.load() >= next || stop_.load(); });
    if (issued_.load() < next) return;
    carry_out(queue_[(next - 1) % kQueue]);
    retired_.store(next, std::memory_order_seq_cst);
    answered_.notify();
  }
}

void Progress::carry_out(Call& call) {
  try {
    transport_.fault().raise_if_set();
    call.begun = steady_seconds();
    transport_.run(call);
    remember(call, steady_seconds());
    finished_(user_, call);
    return;
  } catch (const Error& error) {
    transport_.abort(error);
  } catch (const std::exception& error) {
    transport_.abort(Error(Code::kInternal, fmt::format("rank {}: {}", transport_.rank(), error.what())));
  }
  if (call.ticket < first_failed_.load()) first_failed_.store(call.ticket);
}

void Progress::remember(const Call& call, double ended) {
  const std::lock_guard lock(records_mutex_);
  records_[recorded_++ % kRecords] = {
      call.signature.operation, call.group, call.ticket, call.ledger_bytes, call.issued, call.begun, ended};
}

}  // namespace hawser::comm
