// Rows of the op-case table for records of integers, alone and as addends of sums. Results must be equal to
// the bit.
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/block_records_reference.h"
#include "kernels/cpu/ordered_sum_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_block {

using kernels::BlockDecode;
using kernels::BlockEncode;
using kernels::OrderedSum;

/// Returns numbers of all magnitudes, in records of very different largest numbers. Some records are zeros,
/// have their largest number between two bf16 numbers, or have ties.
std::vector<double> awkward_numbers(int64_t n, DType type, uint32_t seed) {
  std::vector<double> x = random_values(n, seed);
  for (int64_t i = 0; i < n; ++i) {
    double& v = x[static_cast<size_t>(i)];
    const int64_t block = i / kIntBlock;
    switch (block % 5) {
      case 0:
        v = std::ldexp(v, static_cast<int>(block * 37 % 200) - 110);
        break;
      case 1:
        v = block % 2 == 0 ? 0.0 : std::ldexp(v, -121);  // zeros, and numbers that become zeros
        break;
      case 2:
        v = static_cast<double>(i % 15 - 7) / 2;  // halves of a code, if 7 is the largest
        if (i % kIntBlock == 5) v = -7;
        break;
      default:
        break;
    }
    v = rounded(v, type);
  }
  return x;
}

/// Puts a NaN, infinities and numbers above the largest bf16 into some records.
void spoil(std::vector<double>& x) {
  const double values[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(),
                           static_cast<double>(std::numeric_limits<float>::max())};
  for (size_t i = 7, k = 0; i < x.size(); i += 2 * kIntBlock + 11, ++k) x[i] = values[k % 4];
}

std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }

std::vector<double> record_bytes(DType type, const std::vector<float>& x) {
  std::vector<double> bytes;
  for (size_t begin = 0; begin < x.size(); begin += kIntBlock) {
    const std::vector<float> block(
        x.begin() + static_cast<std::ptrdiff_t>(begin),
        x.begin() + static_cast<std::ptrdiff_t>(std::min(begin + kIntBlock, x.size())));
    for (const uint8_t byte : kernels::block_bytes(type, kernels::block_reference(type, block)))
      bytes.push_back(byte);
  }
  return bytes;
}

Operand records(std::string name, DType type, const std::vector<double>& x, Role role) {
  return whole_numbers(std::move(name), record_bytes(type, floats(x)), role, DType::kU8);
}

std::string named(int64_t n, DType type, DType other, bool spoilt) {
  return std::to_string(n) + "/" + dtype_name(type) + "_" + type_word(other) + (spoilt ? "_not_finite" : "");
}

OpCase encode_case(int64_t n, DType type, DType x_type, bool spoilt) {
  OpCase c = {"block_encode", named(n, type, x_type, spoilt), {}, nullptr, nullptr};
  std::vector<double> x = awkward_numbers(n, x_type, static_cast<uint32_t>(n));
  if (spoilt) spoil(x);
  if (x_type != DType::kF32)
    for (double& v : x) v = rounded(v, x_type);
  c.operands = {{"x", Role::kInput, x_type, x, 0}, records("records", type, x, Role::kOutput)};
  c.fast = [=](const FastCall& call) {
    call.table.block_encode({call.data[1], type, call.data[0], x_type, n}, call.stream);
  };
  c.reference = [=](RealOperands& v) { v[1] = record_bytes(type, floats(v[0])); };
  return c;
}

OpCase decode_case(int64_t n, DType type, DType y_type, bool spoilt) {
  OpCase c = {"block_decode", named(n, type, y_type, spoilt), {}, nullptr, nullptr};
  std::vector<double> x = awkward_numbers(n, DType::kF32, static_cast<uint32_t>(n) + 1);
  if (spoilt) spoil(x);
  c.operands = {records("records", type, x, Role::kInput), output("y", y_type, n, 0)};
  c.fast = [=](const FastCall& call) {
    call.table.block_decode({call.data[1], y_type, call.data[0], type, n}, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    const std::vector<float> y = kernels::through_blocks(type, floats(x));
    for (size_t i = 0; i < y.size(); ++i) v[1][i] = rounded(static_cast<double>(y[i]), y_type);
  };
  return c;
}

/// The members' records are first, `out` is last. Sums are in f32, as in the contract, so they are exact.
OpCase sum_case(OrderedSum a, const char* name) {
  OpCase c = {"ordered_sum",
              std::to_string(a.members) + "x" + std::to_string(a.n) + "/" + dtype_name(a.in_type) + name,
              {},
              nullptr,
              nullptr};
  std::vector<std::vector<float>> decoded;
  for (int32_t m = 0; m < a.members; ++m) {
    const std::vector<double> x = random_values(a.n, static_cast<uint32_t>(m) + 1);
    c.operands.push_back(records("in" + std::to_string(m), a.in_type, x, Role::kInput));
    decoded.push_back(kernels::through_blocks(a.in_type, floats(x)));
  }
  c.operands.push_back(a.accumulate ? in_out("out", DType::kF32, a.n, 99, 1, 0)
                                    : output("out", DType::kF32, a.n, 0));
  c.fast = [=](const FastCall& call) {
    OrderedSum args = a;
    const std::vector<const void*> in(call.data.begin(), call.data.end() - 1);
    args.in = in.data();
    args.out = static_cast<float*>(call.data.back());
    call.table.ordered_sum(args, call.stream);
  };
  c.reference = [=](RealOperands& v) {
    for (size_t i = 0; i < static_cast<size_t>(a.n); ++i)
      v.back()[i] = ordered_sum_reference<float>(
          a, static_cast<float>(v.back()[i]), [&](int32_t m) { return decoded[static_cast<size_t>(m)][i]; },
          [](float x, DType type) { return static_cast<float>(rounded(static_cast<double>(x), type)); });
  };
  return c;
}

}  // namespace op_cases_block

void add_block_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_block;
  for (const DType type : {DType::kI8Block, DType::kI4Block}) {
    for (const DType other : {DType::kF32, DType::kBf16, DType::kF16})
      for (const int64_t n : {1, 31, 64, 129, 20011})
        for (const bool spoilt : {false, true}) {
          if (spoilt && n < 64) continue;
          cases.push_back(encode_case(n, type, other, spoilt));
          cases.push_back(decode_case(n, type, other, spoilt));
        }
    for (const int64_t n : {1, 63, 64, 333, 17000})
      cases.push_back(sum_case({.in_type = type, .members = 3, .n = n}, ""));
    cases.push_back(sum_case({.in_type = type, .members = 1, .n = 200}, "_copy"));
    cases.push_back(sum_case({.in_type = type, .members = 6, .sum_group = 2, .n = 200}, "_groups_of_2"));
    cases.push_back(
        sum_case({.in_type = type, .round_to = DType::kBf16, .members = 4, .n = 200}, "_rounded_to_bf16"));
    cases.push_back(sum_case({.in_type = type, .members = 5, .accumulate = true, .n = 131}, "_accumulate"));
  }
}

}  // namespace hawser::testing
