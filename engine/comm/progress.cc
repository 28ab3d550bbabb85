#include "engine/comm/progress.h"

#include <algorithm>
#include <system_error>

#include "engine/base/signals_blocked.h"
#include "engine/base/thread_name.h"
#include "engine/comm/device/device_calls.h"

namespace hawser::comm {
namespace {

/// Records that the issuing thread waits for a call.
class Waits {
 public:
  Waits(Transport& transport, const Call& call) : transport_(transport) { transport_.waits_for(&call); }
  ~Waits() { transport_.waits_for(nullptr); }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

 private:
  Transport& transport_;
};

}  // namespace

Progress::Progress(Transport& transport, int32_t lane, bool at_once, int32_t spins, Finished finished,
                   void* user)
    : transport_(transport), lane_(lane), spins_(spins), finished_(finished), user_(user), queue_(kQueue) {
  if (at_once) return;
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { main_loop(); });
  } catch (const std::system_error& e) {
    fail(Code::kUnavailable,
         "cannot make the communication thread of rank {}: {}; raise the limit on threads", transport.rank(),
         e.what());
  }
  name_thread(thread_, "hws-comm", transport.rank());
}

Progress::~Progress() {
  if (!idle()) {
    transport_.abort(
        Error::fixed(Code::kUnavailable, "ended with calls in flight").on_rank(transport_.rank()));
  }
  if (!thread_.joinable()) return;
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
  recorder_.queued({.operation = call.signature.operation,
                    .group = call.group,
                    .ticket = ticket,
                    .sequence = call.sequence,
                    .bytes = call.ledger_bytes,
                    .issued = call.issued});
  issued_.store(ticket, std::memory_order_seq_cst);
  if (thread_.joinable()) {
    asked_.notify();
  } else {
    const Waits waits(transport_, call);
    run_next();
  }
  return ticket;
}

void Progress::wait(uint64_t ticket) {
  if (ticket == 0) return;
  check_ticket(ticket);
  wait_for(ticket, [] { return false; });
  if (ticket >= first_failed_.load()) throw transport_.fault().error();
}

/// The call's entry in the queue is reused only after a later push of this thread.
template <typename Done>
void Progress::wait_for(uint64_t ticket, const Done& done) {
  const auto over = [&] { return done() || retired_.load() >= ticket; };
  if (over()) return;
  const Waits waits(transport_, queue_[(ticket - 1) % kQueue]);
  answered_.wait_until(kNoDeadline, spins_, over);
}

void Progress::check_ticket(uint64_t ticket) const {
  if (ticket <= issued_.load(std::memory_order_relaxed)) return;
  fail(Code::kInvalidArgument, "no call with ticket {} was issued on rank {}", ticket, transport_.rank());
}

void Progress::given(uint64_t ticket) {
  given_.store(ticket, std::memory_order_seq_cst);
  answered_.notify();
}

bool Progress::wait_given(uint64_t ticket) {
  if (ticket == 0) return true;
  check_ticket(ticket);
  wait_for(ticket, [&] { return given_.load() >= ticket; });
  const bool is_done = done(ticket);
  if (is_done) wait(ticket);
  return is_done;
}

void Progress::drain() {
  answered_.wait_until(kNoDeadline, spins_, [&] { return idle(); });
}

bool Progress::done(uint64_t ticket) const { return retired_.load() >= ticket; }

void Progress::main_loop() {
  for (;;) {
    const uint64_t next = retired_.load(std::memory_order_relaxed) + 1;
    asked_.wait_until(kNoDeadline, spins_, [&] { return issued_.load() >= next || stop_.load(); });
    if (issued_.load() < next) return;
    run_next();
  }
}

void Progress::run_next() {
  const uint64_t next = retired_.load(std::memory_order_relaxed) + 1;
  carry_out(queue_[(next - 1) % kQueue]);
  retired_.store(next, std::memory_order_seq_cst);
  answered_.notify();
}

void Progress::carry_out(Call& call) {
  try {
    transport_.fault().raise_if_set();
    call.begun = steady_seconds();
    recorder_.running(call.ticket, call.begun);
    const int64_t before = transport_.wire_bytes(lane_), charged = transport_.charged_bytes(call);
    call.device != nullptr ? call.device->run(call) : transport_.run(call);
    call.wire_bytes = transport_.wire_bytes(lane_) - before;
    call.charged_bytes = transport_.charged_bytes(call) - charged;
    recorder_.ended(call.ticket, steady_seconds(), CallState::kFinished);
    finished_(user_, call);
    return;
  } catch (...) {
    transport_.abort(Error::caught(transport_.rank()));
  }
  recorder_.ended(call.ticket, steady_seconds(), CallState::kFailed);
  if (call.ticket < first_failed_.load()) first_failed_.store(call.ticket);
}

}  // namespace hawser::comm
