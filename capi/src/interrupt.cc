// hws_thread_set_interrupt. The poll belongs to a thread, so it is destroyed with the thread, by the
// destructor of a pthread key, like the last error (last_error.cc).
#include "engine/base/interrupt.h"

#include <memory>

#include "capi/include/hawser.h"
#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/thread_key.h"

using namespace hawser::capi;

namespace {

struct Interrupt {
  hws_interrupt_fn callback;
  UserData user;
};

/// The value of the key. A running poll shares ownership, because it may set another poll.
using Owner = std::shared_ptr<const Interrupt>;

void forget_interrupt(void* owner) {
  hawser::set_interrupt_poll(nullptr, nullptr);
  delete static_cast<Owner*>(owner);
}

constinit ThreadKey g_interrupt_key{forget_interrupt};

/// Calls the poll. An exception of the callback cancels the call, too.
bool ask_host(void* user) {
  const Owner interrupt = *static_cast<const Owner*>(user);
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
  std::unique_ptr<Owner> before;  // destroyed last, after the new poll is set
  return guard(__func__, [&](const Call&) {
    const auto key = g_interrupt_key.get();
    if (!key) hawser::fail(hawser::Code::kOutOfMemory, "the process has no thread-specific key left");
    std::unique_ptr<Owner> next;
    if (callback != nullptr) {
      next = std::make_unique<Owner>(std::make_shared<const Interrupt>(Interrupt{callback, std::move(data)}));
    }
    auto* const old = static_cast<Owner*>(pthread_getspecific(*key));
    if (pthread_setspecific(*key, next.get()) != 0) throw std::bad_alloc();
    before.reset(old);
    hawser::set_interrupt_poll(next ? ask_host : nullptr, next.get());
    static_cast<void>(next.release());
  });
}
