#include "engine/base/interrupt.h"

#include <chrono>

#include "engine/base/error.h"

namespace hawser {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Clock::duration kBetweenPolls = std::chrono::milliseconds(20);

struct Poll {
  bool (*poll)(void* user) = nullptr;
  void* user = nullptr;
  bool running = false;  // true while the poll runs; a poll that calls the library is not called recursively
  Clock::time_point next{};
};

thread_local constinit Poll t_poll;

}  // namespace

void set_interrupt_poll(bool (*poll)(void* user), void* user) { t_poll = {poll, user, t_poll.running, {}}; }

bool interrupted() {
  if (t_poll.poll == nullptr || t_poll.running) return false;
  const Clock::time_point now = Clock::now();
  if (now < t_poll.next) return false;
  t_poll.next = now + kBetweenPolls;
  t_poll.running = true;
  const bool ends = t_poll.poll(t_poll.user);
  t_poll.running = false;
  return ends;
}

void check_interrupt() {
  if (interrupted()) fail(Code::kCancelled, "the host's interrupt poll ended the call");
}

InterruptFlag::InterruptFlag(const std::atomic<bool>* flag) {
  set_interrupt_poll([](void* user) { return static_cast<const std::atomic<bool>*>(user)->load(); },
                     const_cast<std::atomic<bool>*>(flag));
}

}  // namespace hawser
