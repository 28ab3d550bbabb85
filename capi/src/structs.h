// Checks and copies the structs of the API. They begin with `uint32_t struct_size` and grow only at their
// end. A program built against an older header passes a smaller struct: the fields that it does not know are
// 0. A program built against a newer header passes a larger one: the fields that this library does not know
// must be 0, because ignoring a value that the caller set would be wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "capi/src/arguments.h"

namespace hawser::capi {

inline constexpr uint32_t kStructLimit =
    4096;  ///< an upper bound of all future structs, so that garbage is not taken for a size

/// Checks the host program's struct_size at `user` against T, whose first version had `first_size` bytes;
/// returns it. Throws kInvalidArgument (NULL, misaligned) or kAbiMismatch.
template <typename T>
uint32_t check_struct(const Call& call, const T* user, uint32_t first_size, const char* argument) {
  call.pointer(user, argument);
  const uint32_t size = user->struct_size;
  if (size < first_size || size > kStructLimit) {
    call.invalid(argument,
                 fmt::format("has struct_size {}; set it to sizeof of the struct ({} here)", size, sizeof(T)),
                 Code::kAbiMismatch);
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(user);
  for (uint32_t at = sizeof(T); at < size; ++at) {
    if (bytes[at] != 0) {
      call.invalid(argument,
                   fmt::format("sets byte {}, a field of a newer version that this library ({}, struct of {} "
                               "bytes) does not know; set it to 0 or use a newer library",
                               at, HAWSER_VERSION, sizeof(T)),
                   Code::kAbiMismatch);
    }
  }
  return size;
}

/// True if the first `bytes` bytes of the struct can be read.
template <typename T>
bool is_readable(const T* user, size_t bytes) {
  return user != nullptr && reinterpret_cast<uintptr_t>(user) % alignof(T) == 0 &&
         user->struct_size >= bytes && user->struct_size <= kStructLimit;
}

/// Returns the host program's struct in this library's version.
template <typename T>
T copy_in(const Call& call, const T* user, uint32_t first_size, const char* argument) {
  const uint32_t size = check_struct(call, user, first_size, argument);
  T value;
  std::memset(&value, 0, sizeof value);
  std::memcpy(&value, user, std::min<size_t>(size, sizeof value));
  value.struct_size = sizeof value;
  return value;
}

/// The destination of a result, which may be NULL. The struct is checked before the work is done, and written
/// after it.
template <typename T>
class CopyOut {
 public:
  CopyOut(const Call& call, T* user, uint32_t first_size, const char* argument) : user_(user) {
    if (user != nullptr) size_ = check_struct(call, user, first_size, argument);
  }
  void write(T value) const {
    if (user_ == nullptr) return;
    value.struct_size = size_;
    std::memcpy(user_, &value, std::min<size_t>(size_, sizeof value));
  }

 private:
  T* user_;
  uint32_t size_ = 0;
};

}  // namespace hawser::capi
