// The calling thread's last error, which hws_error_take moves into an object. It is one of the few pieces of
// state that are not in a handle. It is per thread, so it needs no lock.
#pragma once

#include <memory>
#include <string>

#include "engine/base/error.h"

namespace hawser::capi {

/// A failure in the form that the host program reads.
struct ErrorRecord {
  Code code = Code::kUnknown;
  std::string message;
  std::string details = "{}";
};

/// Turns the exception being handled into this thread's last error and returns its status. Call it only
/// inside a catch block. It allocates nothing. `function` must have static storage.
int32_t record_current_exception(const char* function) noexcept;

/// Moves the last error out; returns null if there is none. If it throws bad_alloc, the error stays.
std::unique_ptr<ErrorRecord> take_last_error();

}  // namespace hawser::capi
