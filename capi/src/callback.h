// The host's callbacks: `callback + user + destroy`. destroy(user) runs exactly once, whatever happens, and
// never while the library holds anything. What a callback throws (it must not) becomes HWS_CALLBACK.
#pragma once

#include <exception>
#include <memory>
#include <utility>

#include "capi/src/handle_table.h"

namespace hawser::capi {

/// Owns a callback's `user`. Make it before anything that can fail, outside of the guard.
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
    } catch (...) {  // nobody is left to be told
    }
  }
  void* get() const { return user_; }

 private:
  void* user_;
  void (*destroy_)(void*);
};

/// Runs the host's code. `slot`: of the object whose exclusive call this is. Throws kCallback for an
/// exception.
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
