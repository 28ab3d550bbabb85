// Checks: the conditions for every input. It is accepted, or refused with an error that people and programs
// can read. Anything else ends the fuzzer: a crash, another exception, an internal error, a message that is
// not UTF-8, details that are not JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace hawser::fuzz {

#define FUZZ_REQUIRE(condition)                                                          \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (0)

inline bool is_utf8(const std::string& text) {
  try {
    (void)nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

inline void require_clear(const Error& error) {
  const bool clear = error.code() != Code::kInternal && error.code() != Code::kOk &&
                     !error.message().empty() && is_utf8(error.message()) &&
                     nlohmann::json::parse(error.details(), nullptr, false).is_object();
  if (clear) return;
  std::fprintf(stderr, "unclear error %s: %s\ndetails %s\n", code_name(error.code()), error.message().c_str(),
               error.details().c_str());
  std::abort();
}

/// Runs fn on the input; returns true if the input was accepted.
template <typename Fn>
bool taken(Fn&& fn) {
  try {
    fn();
    return true;
  } catch (const Error& error) {
    require_clear(error);
    return false;
  }
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace hawser::fuzz
