// Checks the arguments of exported functions. Each failure is HWS_INVALID_ARGUMENT, and its message names the
// function and the argument, so that it alone shows which line of the host program to change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace hawser::capi {

/// One call of an exported function. Its methods throw, and read no more of the arguments than they state.
class Call {
 public:
  explicit Call(const char* function) : function_(function) {}
  const char* function() const { return function_; }

  /// Throws `code` with the message "hws_x: `argument` problem" and both names in the details.
  [[noreturn]] void invalid(const char* argument, std::string_view problem,
                            Code code = Code::kInvalidArgument) const;

  /// Checks a required pointer: not NULL, aligned for T.
  template <typename T>
  void pointer(const T* pointer, const char* argument) const {
    check_pointer(pointer, alignof(T), argument);
  }
  /// Checks an optional pointer: NULL, or aligned for T.
  template <typename T>
  void optional(const T* pointer, const char* argument) const {
    if (pointer != nullptr) check_pointer(pointer, alignof(T), argument);
  }
  /// Checks an out-parameter and sets it to NULL, which remains its value on error.
  template <typename T>
  void out(T** out, const char* argument = "out") const {
    check_pointer(out, alignof(T*), argument);
    *out = nullptr;
  }
  /// Checks `count` elements of T at `data`: they must fit an address space; `data` may be NULL if `count` is
  /// 0.
  template <typename T>
  void array(const T* data, size_t count, const char* argument) const {
    check_array(data, count, sizeof(T), alignof(T), argument);
  }

  /// Checks and returns NUL-terminated UTF-8 of at most `limit` bytes. The result borrows the argument.
  std::string_view text(const char* text, const char* argument, size_t limit = kNameLimit) const;
  /// Checks and returns a NUL-terminated path: any bytes, not empty.
  std::string path(const char* path, const char* argument) const;
  /// Checks and returns a path that becomes a text of a config, and so must be UTF-8.
  std::string config_path(const char* path, const char* argument) const;
  /// Checks and returns "", "f32", "bf16" or "f16"; NULL counts as "".
  std::string dtype(const char* dtype, const char* argument) const;
  /// Parse a JSON array of numbers, or of strings; NULL counts as [].
  std::vector<double> number_list(const char* json, const char* argument) const;
  std::vector<std::string> string_list(const char* json, const char* argument) const;

  /// Checks low <= value <= high.
  void range(int64_t value, int64_t low, int64_t high, const char* argument) const;

  static constexpr size_t kNameLimit = size_t{64} << 10;   ///< names, pointers, paths
  static constexpr size_t kValueLimit = size_t{16} << 20;  ///< JSON values and whole configs

 private:
  void check_pointer(const void* pointer, size_t alignment, const char* argument) const;
  void check_utf8(std::string_view text, const char* argument) const;
  void check_array(const void* data, size_t count, size_t size, size_t alignment, const char* argument) const;

  const char* function_;
};

/// True if the two byte ranges share a byte; safe for any values.
bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes);

}  // namespace hawser::capi
