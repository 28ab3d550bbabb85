// Names a thread; debuggers and top show the name.
#pragma once

#include <fmt/core.h>
#include <pthread.h>

#include <cstdint>
#include <thread>

namespace hawser {

/// Sets the name KIND-NUMBER, cut to the 15 bytes that the kernel keeps. Allocates nothing and cannot fail,
/// because an exception here would end the process.
inline void name_thread(std::thread& thread, const char* kind, int32_t number) noexcept {
  char name[16] = {};
  fmt::format_to_n(name, sizeof(name) - 1, "{}-{}", kind, number);
  pthread_setname_np(thread.native_handle(), name);
}

}  // namespace hawser
