// Runs rows of the op-case table: moves operands to memory and back, and compares.
#include "tests/harness/run_op_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace hawser::testing {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<char, Free>;

/// Allocates memory whose end is the end of the allocation.
Buffer allocated(int64_t bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, 64, static_cast<size_t>(bytes)) != 0) throw std::bad_alloc();
  return Buffer(static_cast<char*>(p));
}

template <class T>
void put(char* at, double x) {
  const T value = static_cast<T>(x);
  std::memcpy(at, &value, sizeof(T));
}

template <class T>
double get(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<double>(value);
}

/// Converts a value that half precision represents exactly to its bits, and back.
uint16_t half_bits(double x) {
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const double a = std::abs(x);
  if (std::isnan(x)) return 0x7e00;
  if (std::isinf(x)) return sign | 0x7c00;
  if (a < std::ldexp(1.0, -14)) return sign | static_cast<uint16_t>(std::ldexp(a, 24));
  const int exponent = std::ilogb(a);
  return sign | static_cast<uint16_t>((exponent + 15) << 10 |
                                      (static_cast<int>(std::ldexp(a, 10 - exponent)) & 0x3ff));
}

double half_value(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1 : 1;
  const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction | 0x400, exponent - 25);
}

void put_value(DType type, char* at, double x) {
  switch (type) {
    case DType::kF32:
      return put<float>(at, x);
    case DType::kF64:
      return put<double>(at, x);
    case DType::kI32:
      return put<int32_t>(at, x);
    case DType::kI64:
      return put<int64_t>(at, x);
    case DType::kU8:
      return put<uint8_t>(at, x);
    case DType::kBf16: {
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16);
      std::memcpy(at, &bits, sizeof(bits));  // exact, because operands hold rounded values
      return;
    }
    case DType::kF16: {
      const uint16_t bits = half_bits(x);
      std::memcpy(at, &bits, sizeof(bits));
      return;
    }
    default:
      FAIL() << "no such operand type: " << dtype_name(type);
  }
}

double get_value(DType type, const char* at) {
  switch (type) {
    case DType::kF32:
      return get<float>(at);
    case DType::kF64:
      return get<double>(at);
    case DType::kI32:
      return get<int32_t>(at);
    case DType::kI64:
      return get<int64_t>(at);
    case DType::kU8:
      return get<uint8_t>(at);
    case DType::kBf16: {
      uint16_t bits;
      std::memcpy(&bits, at, sizeof(bits));
      return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
    case DType::kF16: {
      uint16_t bits;
      std::memcpy(&bits, at, sizeof(bits));
      return half_value(bits);
    }
    default:
      return 0;
  }
}

/// Compares one operand of the fast path with the reference's. Reports only the worst element.
void expect_operand_close(const Operand& operand, double tolerance, const std::vector<char>& bytes,
                          const std::vector<double>& want) {
  double square = 0;
  size_t finite = 0;
  for (const double x : want) {
    if (!std::isfinite(x)) continue;
    square += x * x;
    ++finite;
  }
  const double scale = finite > 0 ? std::sqrt(square / static_cast<double>(finite)) : 0;
  // Half a unit in the last place of a bf16 is at most 2^-8 of it; that of a half is at most 2^-11 of it or,
  // if it is subnormal, 2^-25.
  const bool bf16 = operand.type == DType::kBf16, half = operand.type == DType::kF16;
  const double storage = tolerance == 0 ? 0 : bf16 ? 1.0 / 256 : half ? 1.0 / 2048 : 0;
  const double least = tolerance > 0 && half ? 0x1p-25 : 0;
  double worst = -1, worst_got = 0;
  size_t worst_at = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double got =
        get_value(operand.type, bytes.data() + i * static_cast<size_t>(dtype_bytes(operand.type)));
    if (got == want[i] || (std::isnan(want[i]) && std::isnan(got))) continue;
    const double allowed = tolerance * (std::abs(want[i]) + scale) + storage * std::abs(want[i]) + least;
    double error = std::abs(got - want[i]) / (allowed + 1e-300);
    if (std::isnan(error)) error = INFINITY;
    if (error > worst) {
      worst = error;
      worst_got = got;
      worst_at = i;
    }
  }
  if (worst < 0) return;
  EXPECT_LE(worst, 1.0) << operand.name << "[" << worst_at << "] is " << worst_got << ", should be "
                        << want[worst_at] << " (error over tolerance " << worst << ", rms " << scale << ")";
}

}  // namespace

std::vector<std::vector<char>> run_fast(const OpCase& c, const kernels::KernelTable& table, Stream& stream) {
  std::vector<Buffer> buffers;
  return run_fast(c, table, stream, [&](int64_t bytes) {
    buffers.push_back(allocated(bytes));
    return buffers.back().get();
  });
}

std::vector<std::vector<char>> run_fast(const OpCase& c, const kernels::KernelTable& table, Stream& stream,
                                        const std::function<void*(int64_t bytes)>& allocate) {
  const auto poisoned = [&](int64_t bytes) {
    const int64_t size = std::max<int64_t>(bytes, 1);
    return static_cast<char*>(std::memset(allocate(size), 0xff, static_cast<size_t>(size)));
  };
  FastCall call = {table, stream, {}, [&](int64_t bytes) { return static_cast<void*>(poisoned(bytes)); }};
  std::vector<char*> memory;
  for (const Operand& operand : c.operands) {
    const int64_t size = dtype_bytes(operand.type), n = static_cast<int64_t>(operand.value.size());
    memory.push_back(poisoned(n * size));
    call.data.push_back(memory.back());
    for (int64_t i = 0; i < n && operand.role != Role::kOutput; ++i) {
      put_value(operand.type, memory.back() + i * size, operand.value[static_cast<size_t>(i)]);
    }
  }
  c.fast(call);
  std::vector<std::vector<char>> bytes;
  for (size_t i = 0; i < memory.size(); ++i) {
    const auto size = c.operands[i].value.size() * static_cast<size_t>(dtype_bytes(c.operands[i].type));
    bytes.emplace_back(memory[i], memory[i] + size);
  }
  return bytes;
}

RealOperands run_reference(const OpCase& c) {
  RealOperands values;
  for (const Operand& operand : c.operands) values.push_back(operand.value);
  c.reference(values);
  return values;
}

void expect_close(const OpCase& c, const std::vector<std::vector<char>>& got, const RealOperands& want,
                  bool on_tensor_cores) {
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    if (operand.role == Role::kInput) continue;
    expect_operand_close(operand, operand.tolerance + (on_tensor_cores ? operand.on_tensor_cores : 0), got[i],
                         want[i]);
  }
}

std::vector<const OpCase*> cases_of(const std::string& op, bool cuda) {
  std::vector<const OpCase*> found;
  for (const OpCase& c : op_cases()) {
    if (c.op == op && !(cuda ? c.cpu_only : c.narrow)) found.push_back(&c);
  }
  return found;
}

std::vector<const OpCase*> emulated_cases_of(const std::string& op) {
  std::vector<const OpCase*> found = cases_of(op, true);
  std::erase_if(found, [](const OpCase* c) { return c->for_cpu_tiles; });
  return found;
}

}  // namespace hawser::testing
