// UserData and call_host: callbacks of the host program, given as `callback + user + destroy`. destroy(user)
// runs exactly once, whatever happens, and never while the library holds a lock or an object. An exception of
// a callback (which is forbidden) becomes HWS_CALLBACK.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "capi/src/handle_table.h"

namespace hawser::capi {

/// Owns a callback's `user`. Create it outside of the guard, before anything that can fail.
class UserData {
 public:
  UserData(void* user, void (*destroy)(void*)) noexcept : user_(user), destroy_(destroy) {}
  UserData(UserData&& other) noexcept
      : user_(other.user_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  UserData& operator=(UserData&&) = delete;
  ~UserData() {
    if (destroy_ == nullptr) return;
    try {
      destroy_(user_);
    } catch (...) {  // no caller can receive this exception
    }
  }
  void* get() const { return user_; }

 private:
  void* user_;
  void (*destroy_)(void*);
};

/// Runs code of the host program. `slot` is the slot of the object whose exclusive call this is. Throws
/// kCallback if the code throws.
template <typename Fn>
auto call_host(const char* function, Slot* slot, Callback kind, Fn&& fn) {
  const CallbackScope scope(slot, kind);
  Error thrown = Error::fixed(Code::kCallback, "");
  try {
    return std::forward<Fn>(fn)();
  } catch (...) {
    thrown = Error::caught();
  }
  fail(Code::kCallback, "{}: the callback threw \"{}\"; callbacks must handle their exceptions", function,
       thrown.message());
}

}  // namespace hawser::capi
