// Fiber-switch annotations for AddressSanitizer and ThreadSanitizer; no-ops in other builds.
#pragma once

#include <cstddef>

namespace hawser {

/// The sanitizer's record of one stack.
struct FiberAnnotations {
  const void* bottom = nullptr;
  size_t bytes = 0;
  void* state = nullptr;
};

/// Registers a stack before its first use, and removes it after its last.
void add_stack(FiberAnnotations* stack, const void* bottom, size_t bytes);
void remove_stack(FiberAnnotations* stack);
/// Call leave_stack just before the thread switches from `from` to `to`, and arrive_on_stack just after the
/// switch: when `to` begins or continues.
void leave_stack(FiberAnnotations* from, FiberAnnotations* to);
void arrive_on_stack(FiberAnnotations* to, FiberAnnotations* from);

}  // namespace hawser
