// Compares NF4 with bitsandbytes: tensors of tests/golden/nf4_values, which bitsandbytes quantised.
#include "engine/nn/nf4.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>

#include "tests/golden/safetensors_file.h"

namespace hawser::nn {
namespace nf4_test {

using golden::StoredTensor;

std::vector<float> floats(const StoredTensor& t) {
  const std::vector<double> wide = t.as_doubles();
  return {wide.begin(), wide.end()};
}

template <typename Bytes>
bool same_bytes(const Bytes& ours, const StoredTensor& theirs) {
  return ours.size() * sizeof(ours[0]) == theirs.bytes.size() &&
         std::memcmp(ours.data(), theirs.bytes.data(), theirs.bytes.size()) == 0;
}

DType type_of(const StoredTensor& t) {
  return t.dtype == "F32" ? DType::kF32 : t.dtype == "BF16" ? DType::kBf16 : DType::kF16;
}

class Nf4 : public ::testing::Test {
 protected:
  Nf4() : tensors_(golden::read_safetensors(HAWSER_NF4_CASE)) {
    for (const auto& [name, tensor] : tensors_) cases_.insert(name.substr(0, name.find('.')));
  }
  const StoredTensor& of(const std::string& name, const std::string& part) const {
    return tensors_.at(name + "." + part);
  }
  float offset(const std::string& name) const {
    const std::vector<char>& json = of(name, "packed.quant_state.bitsandbytes__nf4").bytes;
    const std::string text(json.begin(), json.end()), key = "\"nested_offset\": ";
    return std::stof(text.substr(text.find(key) + key.size()));
  }

  golden::Tensors tensors_;
  std::set<std::string> cases_;
};

TEST_F(Nf4, QuantisesToTheSameBytes) {
  ASSERT_EQ(cases_.size(), 11u);
  for (const std::string& name : cases_) {
    const std::vector<float> input = floats(of(name, "input"));
    const Nf4Tensor t = nf4_quantise(input.data(), static_cast<int64_t>(input.size()), offset(name));
    EXPECT_TRUE(same_bytes(t.codes, of(name, "packed"))) << name;
    EXPECT_TRUE(same_bytes(t.values, of(name, "packed.quant_map"))) << name;
    EXPECT_TRUE(same_bytes(t.nested_values, of(name, "packed.nested_quant_map"))) << name;
    EXPECT_TRUE(same_bytes(t.absmax, of(name, "packed.absmax"))) << name;
    EXPECT_TRUE(same_bytes(t.nested_absmax, of(name, "packed.nested_absmax"))) << name;
    const float own = nf4_quantise(input.data(), static_cast<int64_t>(input.size())).offset;
    EXPECT_NEAR(own, offset(name), 2e-7f * std::abs(own)) << name;
  }
}

/// Returns true for tensors that bitsandbytes 0.50 on the CPU decodes by blocks of each row, although it
/// quantised them by blocks of the full tensor, because their rows are no multiple of 64. Only numbers whose
/// block is the same in both can be compared.
bool counts_by_rows(const std::string& name) {
  return name == "plain" || name == "bfloat16" || name == "float16" || name == "zeros";
}

TEST_F(Nf4, DecodesStoredTensorsToTheSameBits) {
  for (const std::string& name : cases_) {
    const StoredTensor& back = of(name, "dequantised");
    Nf4Tensor t;
    t.size = back.count();
    const auto take = [&](const char* part, auto* values) {
      const std::vector<char>& bytes = of(name, part).bytes;
      if constexpr (requires { values->resize(1); }) values->resize(bytes.size() / sizeof((*values)[0]));
      ASSERT_EQ(values->size() * sizeof((*values)[0]), bytes.size());
      std::memcpy(values->data(), bytes.data(), bytes.size());
    };
    take("packed", &t.codes), take("packed.absmax", &t.absmax);
    take("packed.nested_absmax", &t.nested_absmax);
    take("packed.quant_map", &t.values), take("packed.nested_quant_map", &t.nested_values);
    t.offset = offset(name);
    std::vector<float> numbers(static_cast<size_t>(t.size));
    t.type = type_of(back);
    nf4_decode(t, numbers.data());
    for (const bool nested : {true, false}) {
      const std::vector<uint8_t> records = nf4_records(t, nested);
      const std::vector<float> scales = nf4_scales(t, nested);
      std::vector<float> from_memory(numbers.size());
      for (int64_t first = 0; first < t.size; first += 3 * kNf4Block)
        nf4_decode(records.data() + dtype_bytes(DType::kNf4, first), scales.data(), first,
                   std::min(3 * kNf4Block, t.size - first), from_memory.data() + first);
      EXPECT_EQ(from_memory, numbers) << name << nested;
    }
    const std::vector<double> theirs = back.as_doubles();
    const int64_t width = back.shape[1];
    int64_t compared = 0;
    for (int64_t i = 0; i < t.size; ++i) {
      const int64_t by_rows = i / width * (width / kNf4Block) + i % width / kNf4Block;
      if (counts_by_rows(name) && by_rows != i / kNf4Block) continue;
      ++compared;
      EXPECT_EQ(static_cast<double>(numbers[static_cast<size_t>(i)]), theirs[static_cast<size_t>(i)])
          << name << i;
    }
    EXPECT_GE(compared, std::min<int64_t>(t.size, width));
  }
}

/// The error of every number is at most half of the widest gap between values, times the largest of its
/// block, plus the error of an 8-bit absmax.
TEST_F(Nf4, DecodedNumbersAreNearTheirOwn) {
  for (const char* name : {"plain", "bfloat16", "zeros"}) {
    const std::vector<float> input = floats(of(name, "input"));
    const auto size = static_cast<int64_t>(input.size());
    std::vector<float> numbers(input.size());
    nf4_decode(nf4_quantise(input.data(), size), numbers.data());
    for (size_t i = 0; i < input.size(); ++i) {
      float most = 0;
      for (size_t j = i / 64 * 64; j < std::min(i / 64 * 64 + 64, input.size()); ++j)
        most = std::max(most, std::abs(input[j]));
      EXPECT_LE(std::abs(numbers[i] - input[i]), 0.1520f * most + 0.02f) << name << i;
    }
  }
}

/// Quantising a decoded tensor again gives the same codes, because each block keeps its largest number.
TEST_F(Nf4, DecodedNumbersKeepTheirCodes) {
  const std::vector<float> input = floats(of("plain", "input"));
  const auto size = static_cast<int64_t>(input.size());
  const Nf4Tensor first = nf4_quantise(input.data(), size);
  std::vector<float> numbers(input.size());
  nf4_decode(first, numbers.data());
  EXPECT_EQ(nf4_quantise(numbers.data(), size).codes, first.codes);
}

TEST_F(Nf4, NothingIsQuantisedToNothing) {
  EXPECT_EQ(nf4_quantise(nullptr, 0).blocks(), 0);
  nf4_decode(nf4_quantise(nullptr, 0), nullptr);
}

}  // namespace nf4_test
}  // namespace hawser::nn
