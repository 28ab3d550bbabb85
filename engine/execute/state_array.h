// StateArray: weights, gradients or moments in device memory, as f32 or bf16. The host reads and writes them
// as f32. Widening is exact; narrowing rounds to nearest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/device/host_link.h"

namespace hawser::train {

struct StateArray {
  void* data = nullptr;
  DType type = DType::kF32;

  explicit operator bool() const { return data != nullptr; }
  /// Returns the array from element i on.
  StateArray from(int64_t i) const { return {static_cast<char*>(data) + dtype_bytes(type, i), type}; }
  /// Returns the array as f32 if the host can access it directly; otherwise null.
  float* in_place(const device::HostLink& link) const {
    return link.in_place() && type == DType::kF32 ? static_cast<float*>(data) : nullptr;
  }
};

// These functions block until done and must not be used in a step. They throw the device's errors.

void read_values(const device::HostLink& link, float* out, StateArray from, int64_t n);
void write_values(const device::HostLink& link, StateArray to, const float* values, int64_t n);
/// Calls fill(host memory, first, count), which writes values [first, first + count) of n.
template <typename Fill>
void produce_values(const device::HostLink& link, StateArray to, int64_t n, Fill fill) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  if (float* const place = to.in_place(link)) return fill(place, int64_t{0}, n);
  std::vector<float> piece(static_cast<size_t>(std::min(n, kPiece)));
  for (int64_t first = 0; first < n; first += kPiece) {
    const int64_t count = std::min(kPiece, n - first);
    fill(piece.data(), first, count);
    write_values(link, to.from(first), piece.data(), count);
  }
}

}  // namespace hawser::train
