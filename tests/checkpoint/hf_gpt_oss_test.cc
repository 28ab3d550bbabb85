// GPT-OSS folder test: the places of experts' matrices and biases in stacked tensors, and folders in MXFP4.
#include <cmath>
#include <cstring>

#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_gpt_oss_test {

const std::string kExperts = "model.layers.0.mlp.experts.";

struct Sizes {
  size_t experts, width, inner;
};

Json config_of(const Sizes& s) {
  Json json = hf::config_of("gpt_oss");
  json.update({{"num_local_experts", s.experts}, {"hidden_size", s.width}, {"intermediate_size", s.inner}});
  json["num_hidden_layers"] = 1;
  return json;
}

/// Returns how many imported elements of the experts differ, in any bit, from a tensor of the folder in f32.
size_t count_wrong(const Case& folder, const Sizes& s, bool packed, const std::string& tensor,
                   const std::string& stored) {
  const bool down = tensor.starts_with("down_proj"), bias = tensor.ends_with("_bias");
  const size_t ins = bias ? 1 : down ? s.inner : s.width, outs = down ? s.width : s.inner;
  const size_t kinds = down ? 1 : 2, columns = outs * kinds;
  EXPECT_EQ(stored.size(), 4 * s.experts * columns * ins) << tensor;
  size_t wrong = 0;
  for (size_t kind = 0; kind < kinds; ++kind) {
    const std::string part = down ? "down" : kind == 0 ? "gate" : "up";
    const std::vector<float>& ours =
        folder.values.at("blocks.0.moe.experts." + part + (bias ? ".bias" : ".weight"));
    for (size_t e = 0; e < s.experts; ++e)
      for (size_t out = 0; out < outs; ++out)
        for (size_t in = 0; in < ins; ++in) {
          const size_t column = out * kinds + kind;
          const size_t at = packed ? (e * columns + column) * ins + in : (e * ins + in) * columns + column;
          wrong += std::memcmp(&ours[(e * outs + out) * ins + in], stored.data() + 4 * at, 4) != 0;
        }
  }
  return wrong;
}

/// gate_up_proj is larger than the buffer through which it is copied, and the first buffer ends within an
/// expert.
TEST(HfGptOss, GateAndUpAlternateInTransposedMatrices) {
  const Sizes sizes = {4, 600, 310};
  const Scratch scratch;
  Case a(config_of(sizes));
  a.fill({});
  a.write(scratch / "in", 1);
  a.import(scratch / "in");
  for (const char* name : {"gate_up_proj", "gate_up_proj_bias", "down_proj", "down_proj_bias"})
    EXPECT_EQ(count_wrong(a, sizes, false, name, a.tensors.at(kExperts + name).bytes), 0u) << name;
  EXPECT_EQ(a.tensors.at(kExperts + "gate_up_proj").shape, (std::vector<int64_t>{4, 600, 620}));
  EXPECT_EQ(a.tensors.at(kExperts + "down_proj").shape, (std::vector<int64_t>{4, 310, 600}));
  a.export_to(scratch / "out", a.import(scratch / "in"));
  expect_same_folder(scratch / "in", scratch / "out");
}

/// Returns the number of a code, from its sign, two bits of exponent and one of mantissa.
double number_of(unsigned code, unsigned scale) {
  const int exponent = static_cast<int>(code >> 1 & 3u);
  const double mantissa = code & 1u;
  const double magnitude = exponent == 0 ? mantissa / 2 : std::ldexp(1 + mantissa / 2, exponent - 1);
  return (code & 8u ? -1 : 1) * std::ldexp(magnitude, static_cast<int>(scale) - 127);
}

constexpr Sizes kSizes = {4, 64, 96};

/// A model whose matrices of experts are in MXFP4. `numbers` holds the numbers of their codes, in order.
struct Packed {
  Case folder{config_of(kSizes)};
  std::map<std::string, std::vector<float>> numbers;

  Packed() {
    folder.fill({.dtype = "BF16"});
    folder.config_["quantization_config"] = {{"quant_method", "mxfp4"},
                                             {"modules_to_not_convert", {"model.embed_tokens", "lm_head"}}};
    for (const auto& [name, outs, ins] : {std::tuple{"gate_up_proj", 2 * kSizes.inner, kSizes.width},
                                          {"down_proj", kSizes.width, kSizes.inner}})
      pack(kExperts + name, outs, ins / 32);
  }

  /// Replaces a tensor by one with every code and every scale except NaN.
  void pack(const std::string& name, size_t rows, size_t groups) {
    std::mt19937 random(11);
    const size_t blocks = kSizes.experts * rows * groups;
    std::string codes(16 * blocks, '\0'), scales(blocks, '\0');
    for (size_t b = 0; b < blocks; ++b) {
      scales[b] = static_cast<char>(b % 255);
      for (size_t i = 0; i < 32; ++i) {
        const unsigned code = b % 2 == 0 && i < 16 ? static_cast<unsigned>(i) : random() % 16;
        codes[16 * b + i / 2] = static_cast<char>(static_cast<unsigned char>(codes[16 * b + i / 2]) |
                                                  (i % 2 == 0 ? code : code << 4));
        numbers[name].push_back(static_cast<float>(number_of(code, static_cast<unsigned>(b % 255))));
      }
    }
    const auto dim = [](size_t n) { return static_cast<int64_t>(n); };
    const std::vector<int64_t> shape = {dim(kSizes.experts), dim(rows), dim(groups)};
    folder.tensors.erase(name);
    folder.tensors[name + "_scales"] = {"U8", shape, scales};
    folder.tensors[name + "_blocks"] = {"U8", {shape[0], shape[1], shape[2], 16}, codes};
  }

  void expect_values() const {
    for (const auto& [name, values] : numbers) {
      const std::string stored(reinterpret_cast<const char*>(values.data()), 4 * values.size());
      EXPECT_EQ(count_wrong(folder, kSizes, true, name.substr(kExperts.size()), stored), 0u) << name;
    }
  }
};

TEST(HfGptOss, Mxfp4BecomesTheNumbersThatItStandsFor) {
  EXPECT_EQ(number_of(7, 127), 6.0);
  EXPECT_EQ(number_of(9, 128), -1.0);
  for (const int shards : {1, 3}) {
    const Scratch scratch;
    Packed p;
    p.folder.write(scratch / "in", shards);
    p.folder.import(scratch / "in");
    p.expect_values();
  }
}

/// bf16 holds each number, and the export's matrices are transposed.
TEST(HfGptOss, AnExportOfMxfp4IsPlainAndMeansTheSame) {
  const Scratch scratch;
  Packed p;
  p.folder.write(scratch / "in", 2);
  p.folder.export_to(scratch / "out", p.folder.import(scratch / "in"));
  const Json config = Json::parse(read_text(scratch / "out/config.json"));
  EXPECT_FALSE(config.contains("quantization_config"));
  const Json index = Json::parse(read_text(scratch / "out/model.safetensors.index.json"));
  EXPECT_TRUE(index["weight_map"].contains(kExperts + "gate_up_proj"));
  EXPECT_FALSE(index["weight_map"].contains(kExperts + "gate_up_proj_blocks"));
  Packed again;
  again.folder.config_ = config;
  again.folder.import(scratch / "out");
  again.expect_values();
}

TEST(HfGptOss, OneTensorMayBePackedAndAnotherPlain) {
  const Scratch scratch;
  Packed p;
  Case plain(config_of(kSizes));
  plain.fill({.dtype = "BF16"});
  const std::string down = kExperts + "down_proj";
  p.folder.tensors.erase(down + "_blocks"), p.folder.tensors.erase(down + "_scales");
  p.folder.tensors[down] = plain.tensors.at(down);
  p.numbers.erase(down);
  p.folder.write(scratch / "in", 1), plain.write(scratch / "plain", 1);
  p.folder.import(scratch / "in"), plain.import(scratch / "plain");
  p.expect_values();
  const std::string ours = "blocks.0.moe.experts.down.weight";
  EXPECT_EQ(std::memcmp(p.folder.values.at(ours).data(), plain.values.at(ours).data(),
                        4 * plain.values.at(ours).size()),
            0);
}

TEST(HfGptOss, Mxfp4ThatDoesNotFitIsNamed) {
  const std::string down = kExperts + "down_proj";
  const auto expect = [&](auto change, const std::string& words) {
    const Scratch scratch;
    Packed p;
    change(p.folder.tensors);
    p.folder.write(scratch / "in", 1);
    const Error error = error_of([&] { p.folder.import(scratch / "in"); });
    EXPECT_EQ(error.code(), Code::kCheckpointIncompatible);
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
  };
  expect([&](auto& t) { t[down + "_scales"].bytes[700] = '\xff'; },
         down + ", which is quantised to mxfp4, has the scale 255, which is NaN, at index 700 of " + down +
             "_scales");
  expect([&](auto& t) { t.erase(down + "_scales"); }, "needs the tensor " + down + "_scales");
  expect([&](auto& t) { t[down + "_scales"].dtype = "I8"; }, "not 768 numbers of U8");
  expect([&](auto& t) { t[down + "_blocks"].dtype = "I8"; }, "not 12288 numbers of U8");
  expect([&](auto& t) { t[down + "_scales"].shape = {4, 3, 64}; }, "of the shape [4, 3, 64], not [4, 64, 3]");
  expect([&](auto& t) { t[down + "_blocks"].shape = {4, 64, 6, 8}; }, "its last dimension must be 16");
  expect(
      [&](auto& t) {
        t[down + "_blocks"].shape = {4, 96, 2, 16};
        t[down + "_scales"].shape = {4, 96, 2};
      },
      down + " is [4, 96, 64] in mxfp4, not [4, 64, 96]");
  expect([&](auto& t) { t[down] = {"U8", {2}, "ab"}; }, "unknown (1): '" + down + "'");
}

}  // namespace hf_gpt_oss_test
}  // namespace hawser::checkpoint::hf
