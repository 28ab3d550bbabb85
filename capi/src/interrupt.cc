// hws_thread_set_interrupt. The poll belongs to a thread, so it goes with the thread: by the destructor of a
// pthread key, as the last error does (last_error.cc).
#include "engine/base/interrupt.h"

#include <pthread.h>

#include <atomic>
#include <memory>

#include "capi/include/hawser.h"
#include "capi/src/callback.h"
#include "capi/src/guard.h"

using namespace hawser::capi;

namespace {

struct Interrupt {
  hws_interrupt_fn callback;
  UserData user;
};

constexpr int64_t kNoInterruptKey = -1;
constinit std::atomic<int64_t> g_interrupt_key{kNoInterruptKey};

void forget_interrupt(void* interrupt) {
  hawser::set_interrupt_poll(nullptr, nullptr);
  delete static_cast<Interrupt*>(interrupt);
}

pthread_key_t interrupt_key() {
  int64_t known = g_interrupt_key.load(std::memory_order_acquire);
  if (known != kNoInterruptKey) return static_cast<pthread_key_t>(known);
  pthread_key_t mine = 0;
  if (pthread_key_create(&mine, forget_interrupt) != 0)
    hawser::fail(hawser::Code::kOutOfMemory, "the process has no thread-specific key left");
  if (g_interrupt_key.compare_exchange_strong(known, mine, std::memory_order_acq_rel)) return mine;
  pthread_key_delete(mine);
  return static_cast<pthread_key_t>(known);
}

/// What the callback throws ends the call as well.
bool ask_host(void* user) {
  const auto* interrupt = static_cast<const Interrupt*>(user);
  try {
    const CallbackScope scope(nullptr, Callback::kNone);
    return interrupt->callback(interrupt->user.get()) != 0;
  } catch (...) {
    return true;
  }
}

}  // namespace

hws_status hws_thread_set_interrupt(hws_interrupt_fn callback, void* user, void (*destroy)(void*)) {
  UserData data(user, destroy);
  std::unique_ptr<Interrupt> before;  // goes last
  return guard(__func__, [&](const Call&) {
    const pthread_key_t k = interrupt_key();
    std::unique_ptr<Interrupt> next;
    if (callback != nullptr) next = std::make_unique<Interrupt>(Interrupt{callback, std::move(data)});
    auto* const old = static_cast<Interrupt*>(pthread_getspecific(k));
    if (pthread_setspecific(k, next.get()) != 0) throw std::bad_alloc();
    before.reset(old);
    hawser::set_interrupt_poll(next ? ask_host : nullptr, next.get());
    static_cast<void>(next.release());
  });
}
