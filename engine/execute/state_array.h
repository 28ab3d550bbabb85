// StateArray: weights, gradients or moments, as f32, bf16 or records of optimizer state, in the device's
// memory or outside the arena. The host reads and writes them as f32. Widening and decoding are exact;
// narrowing rounds to nearest. The host only writes records of integers, from whole ones on. Everything
// that the host does with a rank's state goes through these functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/device/host_link.h"
#include "engine/parallel/offload_store.h"

namespace hawser::train {

struct StateArray {
  void* data = nullptr;  ///< in the device's memory; null if the array is outside the arena
  DType type = DType::kF32;
  parallel::OutsideMemory* outside = nullptr;  ///< the space that has the array; null if `data` is set
  int64_t at = 0;                              ///< its first byte there
  int64_t skip = 0;                            ///< records: numbers of the first one before the array

  explicit operator bool() const { return data != nullptr || outside != nullptr; }
  /// Returns the array from element i on.
  StateArray from(int64_t i) const {
    const DTypeUnit unit = dtype_unit(type);
    const int64_t bytes = (skip + i) / unit.numbers * unit.bytes, rest = (skip + i) % unit.numbers;
    if (outside != nullptr) return {nullptr, type, outside, at + bytes, rest};
    return {static_cast<char*>(data) + bytes, type, nullptr, 0, rest};
  }
  /// Returns the array as f32 if the host can access it directly; otherwise null.
  float* in_place(const device::HostLink& link) const {
    return link.in_place() && type == DType::kF32 ? static_cast<float*>(data) : nullptr;
  }
};

// These functions block until done and must not be used in a step. They throw the device's errors.

/// Copies `bytes` bytes of the array, in its own type.
void read_bytes(const device::HostLink& link, void* out, StateArray from, int64_t bytes);
void write_bytes(const device::HostLink& link, StateArray to, const void* values, int64_t bytes);
void read_values(const device::HostLink& link, float* out, StateArray from, int64_t n);
/// Records of optimizer state that the n values fill only in part keep their other numbers, encoded anew.
/// So a record has the bytes that its numbers had before only if they are all written at once.
void write_values(const device::HostLink& link, StateArray to, const float* values, int64_t n);
/// Copies n elements from array to array, through the host.
void copy_values(const device::HostLink& link, StateArray to, StateArray from, int64_t n);
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
