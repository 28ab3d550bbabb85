// The calling thread's last error: what hws_error_take moves into an object. One of the few pieces of state
// that is not in a handle; it is per thread, so it needs no lock.
#pragma once

#include <memory>
#include <string>

#include "engine/base/error.h"

namespace hawser::capi {

/// A failure as the host reads it.
struct ErrorRecord {
  Code code = Code::kUnknown;
  std::string message;
  std::string details = "{}";
};

/// Turns the exception being handled into this thread's last error and returns its status. To be called
/// inside a catch block only. Takes no memory. `function` has static storage.
int32_t record_current_exception(const char* function) noexcept;

/// Moves the last error out; null if there is none. Throws bad_alloc; then the error stays.
std::unique_ptr<ErrorRecord> take_last_error();

}  // namespace hawser::capi
