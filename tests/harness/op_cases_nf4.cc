// Rows of the op-case table for NF4. Tables have awkward values, and results must be equal to the bit.
#include <bit>

#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_nf4 {

using kernels::Nf4Scales;

double f32(double x) { return static_cast<double>(static_cast<float>(x)); }

/// Returns records of random bytes, including those of their absmax.
std::vector<double> random_records(int64_t n) {
  std::mt19937 random(static_cast<uint32_t>(n));
  std::vector<double> bytes(static_cast<size_t>(dtype_bytes(DType::kNf4, n)));
  for (double& byte : bytes) byte = static_cast<double>(random() % 256);
  return bytes;
}

/// The records of a tensor that a call decodes.
struct Share {
  const char* name = "";
  int32_t first = 0, run = 1, stride = 1, shift = 8;
  int64_t in_tensor(int64_t record) const { return first + record / run * stride + record % run; }
};

Operand scales_of(int64_t n, DType type, const Share& share) {
  const int64_t records = (n + kNf4Block - 1) / kNf4Block;
  Operand scales =
      input("scales", DType::kF32, Nf4Scales::kNested + (share.in_tensor(records - 1) >> share.shift) + 1, 3);
  scales.value[Nf4Scales::kType] = static_cast<double>(type);
  const auto set = [&](int64_t at, int32_t number) {
    scales.value[static_cast<size_t>(at)] = static_cast<double>(std::bit_cast<float>(number));
  };
  set(Nf4Scales::kFirst, share.first), set(Nf4Scales::kRun, share.run), set(Nf4Scales::kStride, share.stride);
  set(Nf4Scales::kShift, share.shift);
  return scales;
}

/// Products and sums of two f32 are exact in f64, so each is rounded once.
OpCase decode_case(int64_t n, DType type, DType y_type, const Share& share = {}) {
  OpCase c = {"nf4_decode",
              std::to_string(n) + "/" + dtype_name(type) + "_to_" + dtype_name(y_type) + share.name,
              {},
              nullptr,
              nullptr};
  c.operands = {whole_numbers("records", random_records(n), Role::kInput, DType::kU8),
                scales_of(n, type, share), output("y", y_type, n, 0)};
  c.fast = [=](const FastCall& call) {
    call.table.nf4_decode({call.data[2], y_type, call.data[0], call.as<float>(1), n}, call.stream);
  };
  c.reference = [=](RealOperands& x) {
    const std::vector<double>&records = x[0], &scales = x[1];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t block = i / kNf4Block, in_block = i % kNf4Block;
      const auto at = [&](int64_t byte) {
        return static_cast<int64_t>(records[static_cast<size_t>(block * kNf4Record + byte)]);
      };
      const auto scale = [&](int64_t word) { return scales[static_cast<size_t>(word)]; };
      const double largest = scale(Nf4Scales::kNested + (share.in_tensor(block) >> share.shift));
      const double part = f32(scale(Nf4Scales::kAbsmax + at(kNf4Record - 1)) * largest);
      const double absmax = f32(part + scale(Nf4Scales::kOffset));
      const int64_t pair = at(in_block / 2), code = in_block % 2 == 0 ? pair / 16 : pair % 16;
      const double own = rounded(f32(scale(Nf4Scales::kValues + code) * absmax), type);
      x[2][static_cast<size_t>(i)] = rounded(own, y_type);
    }
  };
  return c;
}

}  // namespace op_cases_nf4

void add_nf4_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_nf4;
  for (const DType y_type : {DType::kF32, DType::kBf16, DType::kF16})
    for (const DType type : {DType::kF32, DType::kBf16, DType::kF16})
      for (const int64_t n : {1, 63, 129, 16500}) cases.push_back(decode_case(n, type, y_type));
  // Rows that begin within a group of records, the middle part of each row, and one absmax in f32 for each
  // record.
  for (const Share& share : {Share{"/rows", 200}, Share{"/columns", 3, 2, 7}, Share{"/f32", 5, 3, 4, 0}})
    for (const DType y_type : {DType::kF32, DType::kBf16, DType::kF16})
      cases.push_back(decode_case(40000, DType::kBf16, y_type, share));
}

}  // namespace hawser::testing
