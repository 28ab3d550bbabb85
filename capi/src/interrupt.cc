// hws_thread_set_interrupt and hws_thread_set_progress: callbacks that long calls invoke on their own thread.
#include "engine/base/interrupt.h"

#include "capi/include/hawser.h"
#include "capi/src/thread_callback.h"
#include "engine/base/call_progress.h"

using namespace hawser::capi;

namespace {

using Interrupt = ThreadCallback<hws_interrupt_fn>;
using Progress = ThreadCallback<hws_progress_fn>;

constinit ThreadKey g_interrupt_key{[](void* owner) {
  hawser::set_interrupt_poll(nullptr, nullptr);
  Interrupt::destroy(owner);
}};
constinit ThreadKey g_progress_key{[](void* owner) {
  hawser::set_call_progress(nullptr, nullptr);
  Progress::destroy(owner);
}};

/// Calls the poll. An exception of the callback cancels the call, too.
bool ask_host(void* user) {
  const Interrupt::Owner interrupt = *static_cast<const Interrupt::Owner*>(user);
  try {
    const CallbackScope scope(nullptr, Callback::kNone);
    return interrupt->callback(interrupt->user.get()) != 0;
  } catch (...) {
    return true;
  }
}

bool tell_host(void* user, const hawser::CallProgress& now) {
  const Progress::Owner progress = *static_cast<const Progress::Owner*>(user);
  const std::string json =
      fmt::format(R"({{"phase":"{}","done":{},"total":{}}})", now.phase, now.done, now.total);
  return call_host("hws_thread_set_progress", nullptr, Callback::kNone,
                   [&] { return progress->callback(progress->user.get(), json.c_str(), json.size()) != 0; });
}

}  // namespace

hws_status hws_thread_set_interrupt(hws_interrupt_fn callback, void* user, void (*destroy)(void*)) {
  return set_thread_callback(__func__, &g_interrupt_key, callback, UserData(user, destroy), [](void* owner) {
    hawser::set_interrupt_poll(owner != nullptr ? ask_host : nullptr, owner);
  });
}

hws_status hws_thread_set_progress(hws_progress_fn callback, void* user, void (*destroy)(void*)) {
  return set_thread_callback(__func__, &g_progress_key, callback, UserData(user, destroy), [](void* owner) {
    hawser::set_call_progress(owner != nullptr ? tell_host : nullptr, owner);
  });
}
