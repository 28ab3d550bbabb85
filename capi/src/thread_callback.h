// ThreadCallback: a callback that belongs to a thread and is destroyed with it, by the destructor of a
// pthread key, like the last error (last_error.cc).
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "capi/src/callback.h"
#include "capi/src/guard.h"
#include "capi/src/thread_key.h"

namespace hawser::capi {

template <typename Fn>
struct ThreadCallback {
  Fn callback;
  UserData user;

  /// The value of the key. A running callback shares ownership, because it may set another one.
  using Owner = std::shared_ptr<const ThreadCallback>;
  static void destroy(void* owner) { delete static_cast<Owner*>(owner); }
};

/// Replaces the callback of the calling thread. `install` gets the new Owner*, or null, which the running
/// calls of this thread use from then on.
template <typename Fn, typename Install>
hws_status set_thread_callback(const char* function, ThreadKey* thread_key, Fn callback, UserData data,
                               const Install& install) {
  using Owner = typename ThreadCallback<Fn>::Owner;
  std::unique_ptr<Owner> before;  // destroyed last, after the new callback is set
  return guard(function, [&](const Call&) {
    const auto key = thread_key->get();
    if (!key) fail(Code::kOutOfMemory, "the process has no thread-specific key left");
    std::unique_ptr<Owner> next;
    if (callback != nullptr)
      next = std::make_unique<Owner>(
          std::make_shared<const ThreadCallback<Fn>>(ThreadCallback<Fn>{callback, std::move(data)}));
    auto* const old = static_cast<Owner*>(pthread_getspecific(*key));
    if (pthread_setspecific(*key, next.get()) != 0) throw std::bad_alloc();
    before.reset(old);
    install(next.get());
    static_cast<void>(next.release());
  });
}

}  // namespace hawser::capi
