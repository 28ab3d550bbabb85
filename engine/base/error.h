// Error: the one exception type of Hawser. Any code below the C API may throw it; the C API turns it into a
// status (capi/src/guard.h). A message names the problem, the place, the value and the remedy. `details` is a
// JSON object (text) for programs, such as {"pointer": "/model/heads"} or {"file": "x.bin", "offset": 12}.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/code.h"

namespace hawser {

/// Returns "HWS_CONFIG_INVALID" and so on; "HWS_UNKNOWN" for any other number. Static storage.
const char* code_name(Code code);

/// Text with static storage: it can only be made from a literal.
class Literal {
 public:
  consteval Literal(const char* text) : text_(text) {}  // NOLINT: meant to convert
  constexpr const char* text() const { return text_; }

 private:
  const char* text_;
};

/// Copies share the text and allocate nothing, so an error can be kept and rethrown when memory has run out.
class Error : public std::exception {
 public:
  /// Messages are UTF-8. Invalid bytes, for instance of a path or a damaged file, become '?'.
  Error(Code code, std::string message, std::string details = "{}");
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;

  // These are for handlers and `noexcept` functions: they allocate nothing.
  static Error fixed(Code code, Literal message) noexcept { return {Kept(), code, message.text()}; }
  static Error out_of_memory() noexcept;
  /// Returns the exception being handled. `rank` is the rank that failed (-1: any); it is added to exceptions
  /// whose text cannot contain it: those of other libraries, and failed allocations.
  static Error caught(int32_t rank = -1) noexcept;
  /// Returns this error with "rank R: " before its message.
  Error on_rank(int32_t rank) const noexcept;

  Code code() const { return code_; }
  std::string message() const;
  std::string details() const { return details_; }
  /// The message without its rank.
  const char* what() const noexcept override { return message_; }
  /// Copies the message, cut between two characters if it is longer than `size` - 1 bytes. Allocates nothing.
  void copy_message(char* out, size_t size) const noexcept;

 private:
  struct Kept {};  ///< the caller guarantees that the text lives long enough
  Error(Kept, Code code, const char* message) noexcept : code_(code), message_(message) {}

  Code code_;
  int32_t rank_ = -1;
  const char* message_;
  const char* details_ = "{}";
  std::shared_ptr<const void> owner_;  ///< owner of both texts; null if they are literals
  std::exception_ptr foreign_;         ///< not null if the message is this exception's
};

/// Throws Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Checks a condition that only a bug in Hawser can break. Throws kInternal with the source location.
#define HWS_CHECK(condition)                                                                     \
  do {                                                                                           \
    if (!(condition))                                                                            \
      ::hawser::fail(::hawser::Code::kInternal, "internal check failed: {} ({}:{})", #condition, \
                     __FILE_NAME__, __LINE__);                                                   \
  } while (0)

}  // namespace hawser
