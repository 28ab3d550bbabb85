// Error: the one exception type of Hawser. It is thrown anywhere below the C API and turned into a status
// there (capi/src/guard.h). A message says what, where, which value and what to do; `details` is a JSON
// object (text) for machines, such as {"pointer": "/model/heads"} or {"file": "x.bin", "offset": 12}.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

#include "engine/base/code.h"

namespace hawser {

/// "HWS_CONFIG_INVALID" and so on; "HWS_UNKNOWN" for a number that is none. Static storage.
const char* code_name(Code code);

class Error : public std::exception {
 public:
  /// Messages are UTF-8: '?' stands for each byte, of a path or a damaged file, that is not.
  Error(Code code, std::string message, std::string details = "{}");
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& details() const { return details_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Code code_;
  std::string message_;
  std::string details_;
};

/// Throws Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// For what only a bug in Hawser can break; throws kInternal naming the place.
#define HWS_CHECK(condition)                                                                               \
  do {                                                                                                     \
    if (!(condition))                                                                                      \
      ::hawser::fail(::hawser::Code::kInternal, "internal check failed: {} ({}:{})", #condition, __FILE__, \
                     __LINE__);                                                                            \
  } while (0)

}  // namespace hawser
