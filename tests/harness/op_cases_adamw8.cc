// Rows of the op-case table for AdamW with moments in records. Moments are operands in f32: both paths encode
// them, and decode them afterwards, by the reference.
#include <cmath>

#include "kernels/cpu/optimizer_reference.h"
#include "tests/harness/op_cases.h"

namespace hawser::testing {
namespace op_cases_adamw8 {

using kernels::AdamW8;
using kernels::OptimizerScalars;
using kernels::SettingsRun;

constexpr OptimizerScalars kScalars = {
    .lr = 0.01f, .grad_scale = 0.5f, .bias_correction1 = 0.271f, .bias_correction2 = 0.0029955f};
constexpr int64_t kFirst = 128;  ///< the number of the first element
/// The settings change within records, twice within the third, and at the start of one.
constexpr SettingsRun kRuns[] = {{64, 0.5f, 9.0f},           {kFirst + 30, 0.1f, 1.0f},
                                 {kFirst + 140, 0.0f, 0.5f}, {kFirst + 150, 0.3f, 2.0f},
                                 {kFirst + 320, 0.0f, 1.0f}, {1 << 30, 0.1f, 1.0f}};

std::vector<uint8_t> records(DType type, const std::vector<double>& x) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < x.size(); i += kStateBlock) {
    const std::vector<double> block(x.begin() + static_cast<std::ptrdiff_t>(i),
                                    x.begin() + static_cast<std::ptrdiff_t>(i + kStateBlock));
    const std::vector<uint8_t> record = kernels::state_record(type, block);
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return bytes;
}

std::vector<double> numbers(DType type, const std::vector<uint8_t>& bytes) {
  std::vector<double> all;
  for (size_t i = 0; i < bytes.size(); i += kStateRecord) {
    const std::vector<double> x = kernels::state_numbers(type, bytes.data() + i);
    all.insert(all.end(), x.begin(), x.end());
  }
  return all;
}

/// Magnitudes over many orders, also within a record; some records are zeros.
Operand moments(const char* name, DType type, int64_t n, uint32_t seed) {
  Operand o = in_out(name, DType::kF32, n, seed, 0.1, 2e-6);
  for (size_t i = 0; i < o.value.size(); ++i) {
    const size_t block = i / kStateBlock;
    double& x = o.value[i];
    if (block % 5 == 3) x = 0;
    if (block % 5 == 4) x = std::ldexp(x, -static_cast<int>(i % 40));
    if (type == DType::kU8Block) x = x * x;
  }
  o.value = numbers(type, records(type, o.value));
  for (double& x : o.value) x = rounded(x, DType::kF32);
  return o;
}

OpCase adamw8_case(int64_t n, bool copy, DType copy_type) {
  AdamW8 a;
  a.scalars = &kScalars, a.runs = kRuns, a.first = kFirst, a.n = n, a.copy_type = copy_type;
  OpCase c = {
      "adamw8", std::to_string(n) + (copy ? "_copy_" + type_word(copy_type) : ""), {}, nullptr, nullptr};
  c.operands = {in_out("weight", DType::kF32, n, 1, 1.0, 1e-6), moments("m", DType::kS8Block, n, 2),
                moments("v", DType::kU8Block, n, 3), input("grad", DType::kF32, n, 4),
                output("copy", copy_type, n, 1e-6)};
  for (size_t i = 0; i < c.operands[3].value.size(); ++i)
    if (i / kStateBlock % 5 == 3 && i % 3 == 0) c.operands[3].value[i] = 0;
  c.cpu_only = true;
  c.fast = [=](const FastCall& call) {
    const auto encoded = [&](size_t operand, DType type) {
      const std::vector<uint8_t> bytes =
          records(type, {call.as<float>(operand), call.as<float>(operand) + n});
      void* const place = call.workspace(static_cast<int64_t>(bytes.size()));
      std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(place));
      return place;
    };
    AdamW8 args = a;
    args.weight = call.as<float>(0), args.grad = call.as<float>(3);
    args.m = encoded(1, DType::kS8Block), args.v = encoded(2, DType::kU8Block);
    args.copy = copy ? call.data[4] : nullptr;
    call.table.adamw8(args, call.stream);
    const auto decode = [&](size_t operand, DType type, const void* place) {
      const auto* const bytes = static_cast<const uint8_t*>(place);
      const std::vector<double> x = numbers(type, {bytes, bytes + dtype_bytes(type, n)});
      std::copy(x.begin(), x.end(), call.as<float>(operand));
    };
    decode(1, DType::kS8Block, args.m), decode(2, DType::kU8Block, args.v);
  };
  c.reference = [=](RealOperands& x) {
    std::vector<uint8_t> m = records(DType::kS8Block, x[1]), v = records(DType::kU8Block, x[2]);
    for (int64_t i = 0, block = 0; i < n; i += kStateBlock, ++block)
      adamw8_reference(a, kScalars, kFirst + i, x[0].data() + i, m.data() + block * kStateRecord,
                       v.data() + block * kStateRecord, x[3].data() + i);
    x[1] = numbers(DType::kS8Block, m), x[2] = numbers(DType::kU8Block, v);
    if (copy) x[4] = x[0];
  };
  return c;
}

}  // namespace op_cases_adamw8

void add_adamw8_cases(std::vector<OpCase>& cases) {
  using namespace op_cases_adamw8;
  for (const int64_t n : {64, 640, 1984}) {
    cases.push_back(adamw8_case(n, false, DType::kBf16));
    cases.push_back(adamw8_case(n, true, DType::kBf16));
    cases.push_back(adamw8_case(n, true, DType::kF16));
  }
}

}  // namespace hawser::testing
