// The guard: the only way in which an exported function runs code that can fail. It turns every exception
// into a status and the thread's last error, so no exception leaves the library.
#pragma once

#include <cstdint>
#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/last_error.h"

namespace hawser::capi {

/// Runs body(call). Returns HWS_OK, or the status of the exception. A success does not change the last error.
/// `function` (normally __func__) must have static storage.
template <typename Body>
int32_t guard(const char* function, Body&& body) noexcept {
  try {
    const Call call(function);
    std::forward<Body>(body)(call);
    return static_cast<int32_t>(Code::kOk);
  } catch (...) {
    return record_current_exception(function);
  }
}

}  // namespace hawser::capi
