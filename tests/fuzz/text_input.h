// Text inputs: split the inputs of the text module's fuzzers, and bound the time of an input.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "engine/base/interrupt.h"

namespace hawser::fuzz {

struct InputParts {
  std::string_view first, rest;
};

/// Splits an input at the first line that consists of "--- rest ---". Without that line, `rest` is empty.
inline InputParts split_input(std::string_view input) {
  constexpr std::string_view kLine = "\n--- rest ---\n";
  const size_t at = input.find(kLine);
  if (at == std::string_view::npos) return {input, ""};
  return {input.substr(0, at), input.substr(at + kLine.size())};
}

/// Cancels the calls of one input after 4 seconds, as a host program does if a person interrupts it.
/// libFuzzer's -timeout is longer, so an input reaches it only if a call ignores the interrupt.
class Interruption {
 public:
  Interruption() : end_(std::chrono::steady_clock::now() + std::chrono::seconds(4)) {
    set_interrupt_poll(
        [](void* user) { return std::chrono::steady_clock::now() > static_cast<Interruption*>(user)->end_; },
        this);
  }
  ~Interruption() { set_interrupt_poll(nullptr, nullptr); }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  std::chrono::steady_clock::time_point end_;
};

}  // namespace hawser::fuzz
