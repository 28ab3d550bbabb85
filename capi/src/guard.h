// The guard: the only way an export runs code that can fail. Whatever is thrown below becomes a status and
// the thread's last error; nothing ever leaves the library as an exception.
#pragma once

#include <cstdint>
#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/last_error.h"

namespace hawser::capi {

/// Runs body(call) and returns HWS_OK or the status of what it threw. A success leaves the last error alone.
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
