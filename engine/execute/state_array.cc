#include "engine/execute/state_array.h"

#include "engine/checkpoint/hf/number_format.h"

namespace hawser::train {

namespace hf = checkpoint::hf;

void read_values(const device::HostLink& link, float* out, StateArray from, int64_t n) {
  if (from.type == DType::kF32) return link.read(out, from.data, n * dtype_bytes(DType::kF32));
  const int64_t bytes = n * dtype_bytes(from.type);
  std::vector<char> stored(static_cast<size_t>(bytes));
  link.read(stored.data(), from.data, bytes);
  hf::widen(from.type, stored.data(), n, out);
}

void write_values(const device::HostLink& link, StateArray to, const float* values, int64_t n) {
  if (to.type == DType::kF32) return link.write(to.data, values, n * dtype_bytes(DType::kF32));
  const int64_t bytes = n * dtype_bytes(to.type);
  std::vector<char> stored(static_cast<size_t>(bytes));
  hf::narrow(to.type, values, n, stored.data());
  link.write(to.data, stored.data(), bytes);
}

}  // namespace hawser::train
