#include "engine/execute/state_array.h"

#include "engine/checkpoint/hf/number_format.h"
#include "engine/comm/serial_stream.h"
#include "engine/execute/state_records.h"
#include "kernels/include/levels.h"

namespace hawser::train {

namespace hf = checkpoint::hf;

void read_bytes(const device::HostLink& link, void* out, StateArray from, int64_t bytes) {
  if (from.outside != nullptr) return from.outside->read(from.at, out, bytes);
  link.read(out, from.data, bytes);
}

void write_bytes(const device::HostLink& link, StateArray to, const void* values, int64_t bytes) {
  if (to.outside != nullptr) return to.outside->write(to.at, values, bytes);
  link.write(to.data, values, bytes);
}

void read_values(const device::HostLink& link, float* out, StateArray from, int64_t n) {
  if (from.type == DType::kF32) return read_bytes(link, out, from, n * dtype_bytes(DType::kF32));
  if (is_state_block(from.type))
    return read_records(from, out, n, [&](StateArray records, void* to, int64_t bytes) {
      read_bytes(link, to, records, bytes);
    });
  const int64_t bytes = n * dtype_bytes(from.type);
  std::vector<char> stored(static_cast<size_t>(bytes));
  read_bytes(link, stored.data(), from, bytes);
  hf::widen(from.type, stored.data(), n, out);
}

void write_values(const device::HostLink& link, StateArray to, const float* values, int64_t n) {
  if (to.type == DType::kF32) return write_bytes(link, to, values, n * dtype_bytes(DType::kF32));
  if (is_state_block(to.type)) return write_records(link, to, values, n);
  const int64_t bytes = dtype_bytes(to.type, n);
  std::vector<char> stored(static_cast<size_t>(bytes));
  if (is_int_block(to.type)) {
    comm::SerialStream stream;
    kernels::cpu_kernels(kernels::best_cpu_level())
        .block_encode({stored.data(), to.type, values, DType::kF32, n}, stream);
  } else {
    hf::narrow(to.type, values, n, stored.data());
  }
  write_bytes(link, to, stored.data(), bytes);
}

void copy_values(const device::HostLink& link, StateArray to, StateArray from, int64_t n) {
  produce_values(link, to, n, [&](float* values, int64_t first, int64_t count) {
    read_values(link, values, from.from(first), count);
  });
}

}  // namespace hawser::train
