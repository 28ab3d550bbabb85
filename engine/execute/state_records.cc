#include "engine/execute/state_records.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/include/state_records.h"

namespace hawser::train {
namespace {

using namespace kernels;

float root(DType type, float x) { return type == DType::kS8Block ? std::sqrt(x) : std::sqrt(std::sqrt(x)); }

uint8_t code(DType type, float x, float factor) {
  const float scaled = std::nearbyint(root(type, std::abs(x)) * factor);
  if (type == DType::kS8Block) return static_cast<uint8_t>(static_cast<int8_t>(std::copysign(scaled, x)));
  return static_cast<uint8_t>(x > 0 ? std::max(scaled, 1.0f) : scaled);
}

float number(DType type, uint8_t code, float absmax) {
  if (type == DType::kS8Block) {
    const float c = static_cast<int8_t>(code);
    return c * std::abs(c) * kPerSquareS8 * absmax;
  }
  const float c = code, square = c * c * kPerSquareU8;
  return square * square * absmax;
}

void encode_record(DType type, const float* x, int64_t n, uint8_t* record) {
  const bool first = type == DType::kS8Block;
  float absmax = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(x[i]);
    absmax = std::max(absmax, std::abs(x[i]));
  }
  std::memset(record, 0, kStateBlock);
  if (!finite) absmax = std::numeric_limits<float>::quiet_NaN();
  if (absmax > 0) {
    absmax = std::max(absmax, first ? kLeastFirst : kLeastSecond);
    const float factor = (first ? kMostS8 : kMostU8) / root(type, absmax);
    for (int64_t i = 0; i < n; ++i) record[i] = code(type, x[i], factor);
  }
  std::memcpy(record + kStateBlock, &absmax, sizeof(absmax));
}

/// Returns the bytes of the records in which n numbers of an array lie.
int64_t bytes_of(StateArray array, int64_t n) { return dtype_bytes(array.type, array.skip + n); }

}  // namespace

void encode_state(DType type, const float* x, int64_t n, uint8_t* records) {
  for (int64_t i = 0; i < n; i += kStateBlock, records += kStateRecord)
    encode_record(type, x + i, std::min(kStateBlock, n - i), records);
}

void decode_state(DType type, const uint8_t* records, int64_t n, float* y) {
  for (int64_t i = 0; i < n; i += kStateBlock, records += kStateRecord) {
    float absmax;
    std::memcpy(&absmax, records + kStateBlock, sizeof(absmax));
    for (int64_t j = 0; j < std::min(kStateBlock, n - i); ++j) y[i + j] = number(type, records[j], absmax);
  }
}

void read_records(StateArray from, float* out, int64_t n,
                  const std::function<void(StateArray, void*, int64_t)>& read) {
  std::vector<uint8_t> records(static_cast<size_t>(bytes_of(from, n)));
  read(from, records.data(), static_cast<int64_t>(records.size()));
  std::vector<float> all(static_cast<size_t>(from.skip + n));
  decode_state(from.type, records.data(), from.skip + n, all.data());
  std::copy_n(all.data() + from.skip, n, out);
}

void write_records(const device::HostLink& link, StateArray to, const float* values, int64_t n) {
  std::vector<uint8_t> records(static_cast<size_t>(bytes_of(to, n)));
  const auto bytes = static_cast<int64_t>(records.size()), numbers = bytes / kStateRecord * kStateBlock;
  std::vector<float> all(static_cast<size_t>(numbers));
  if (numbers > n) {
    read_bytes(link, records.data(), to, bytes);
    decode_state(to.type, records.data(), numbers, all.data());
  }
  std::copy_n(values, n, all.data() + to.skip);
  encode_state(to.type, all.data(), numbers, records.data());
  write_bytes(link, to, records.data(), bytes);
}

}  // namespace hawser::train
