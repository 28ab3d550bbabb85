// fp8 folder test: folders whose matrices are E4M3 codes with a scale for each block of 128 x 128 numbers,
// like DeepSeek-V3's.
#include <cmath>
#include <limits>

#include "engine/nn/nf4.h"
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_fp8_test {

const char* const kQuantisation =
    R"({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
        "weight_block_size": [128, 128]})";

/// Returns the value of an E4M3 code, computed in another way than by the engine.
double value_of(int code) {
  const int exponent = code / 8 % 16, fraction = code % 8;
  double value =
      exponent == 0 ? fraction / 8.0 * std::pow(2.0, -6) : (1 + fraction / 8.0) * std::pow(2.0, exponent - 7);
  if (exponent == 15 && fraction == 7) value = std::nan("");
  return code >= 128 ? -value : value;
}

float scale_of(const Stored& scales, int64_t index) {
  const DType type = *dtype_from_name(scales.dtype);
  float scale = 0;
  widen(type, scales.bytes.data() + index * dtype_bytes(type), 1, &scale);
  return scale;
}

/// A model whose projections are in fp8; `numbers` holds the numbers that they represent. Most matrices end
/// inside a block, so their last blocks are smaller.
struct InFp8 {
  Case folder;
  std::map<std::string, std::vector<float>> numbers;

  static Json sizes(const std::string& family) {
    Json config = config_of(family);
    config["hidden_size"] = 160, config["intermediate_size"] = 300;
    if (config.contains("moe_intermediate_size")) config["moe_intermediate_size"] = 130;
    return config;
  }

  explicit InFp8(const std::string& family = "llama", const std::string& scale_type = "F32")
      : folder(sizes(family)) {
    folder.fill({.dtype = "BF16"});
    std::mt19937 random(9);
    const std::map<std::string, Stored> plain = folder.tensors;
    for (const auto& [name, tensor] : plain) {
      for (size_t i = 1; i < tensor.bytes.size(); i += 2)  // finite numbers
        folder.tensors[name].bytes[i] = static_cast<char>(random() % 64);
      if (name.ends_with("_proj.weight")) narrow(name, tensor.shape, scale_type, &random);
    }
    folder.config_["quantization_config"] = Json::parse(kQuantisation);
  }

  void narrow(const std::string& name, const std::vector<int64_t>& shape, const std::string& scale_type,
              std::mt19937* random) {
    const int64_t across = (shape[1] + 127) / 128, down = (shape[0] + 127) / 128;
    Stored scales{scale_type, {down, across}, ""};
    std::uniform_real_distribution<float> scale(1e-4f, 3e-3f);
    for (int64_t i = 0; i < down * across; ++i) {
      const float s = scale(*random);
      const auto* const bytes = reinterpret_cast<const char*>(&s);
      scales.bytes += scale_type == "F32" ? std::string(bytes, 4) : std::string(bytes + 2, 2);
    }
    Stored codes{"F8_E4M3", shape, std::string(static_cast<size_t>(shape[0] * shape[1]), '\0')};
    for (int64_t r = 0; r < shape[0]; ++r)
      for (int64_t c = 0; c < shape[1]; ++c) {
        int code = static_cast<int>((*random)() % 256);
        if (code % 128 == 127) code -= 1;  // not NaN
        codes.bytes[static_cast<size_t>(r * shape[1] + c)] = static_cast<char>(code);
        numbers[name].push_back(
            static_cast<float>(value_of(code) * double{scale_of(scales, r / 128 * across + c / 128)}));
      }
    folder.tensors[name] = codes, folder.tensors[name + "_scale_inv"] = scales;
  }
};

TEST(HfFp8, MatricesBecomeTheNumbersThatTheyStandFor) {
  for (const char* scale_type : {"F32", "BF16"}) {
    const Scratch scratch;
    InFp8 made("llama", scale_type);
    made.folder.write(scratch / "in", 2);
    made.folder.import(scratch / "in");
    EXPECT_EQ(made.numbers.size(), 14u);
    for (const char* part : {"q", "k", "v", "o"})
      EXPECT_EQ(made.folder.values.at(std::string("blocks.1.attention.") + part + ".weight"),
                made.numbers.at(std::string("model.layers.1.self_attn.") + part + "_proj.weight"))
          << part << scale_type;
    for (const char* part : {"gate", "up", "down"})
      EXPECT_EQ(made.folder.values.at(std::string("blocks.0.mlp.") + part + ".weight"),
                made.numbers.at(std::string("model.layers.0.mlp.") + part + "_proj.weight"))
          << part << scale_type;
  }
}

TEST(HfFp8, EveryExpertOfDeepSeekHasScales) {
  const Scratch scratch;
  InFp8 made("deepseek_v3");
  made.folder.write(scratch / "in", 3);
  made.folder.import(scratch / "in");
  const std::vector<float>& all = made.folder.values.at("blocks.1.moe.experts.down.weight");
  for (int64_t e = 0; e < 4; ++e) {
    const std::vector<float>& own =
        made.numbers.at(fmt::format("model.layers.1.mlp.experts.{}.down_proj.weight", e));
    EXPECT_EQ(std::vector<float>(all.begin() + e * std::ssize(own), all.begin() + (e + 1) * std::ssize(own)),
              own)
        << e;
  }
  EXPECT_EQ(made.folder.values.at("blocks.1.attention.kv_b.weight"),
            made.numbers.at("model.layers.1.self_attn.kv_b_proj.weight"));
}

TEST(HfFp8, EveryCodeIsTheNumberOfItsBits) {
  const Scratch scratch;
  InFp8 made;
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  std::string& codes = made.folder.tensors.at(q).bytes;
  ASSERT_GE(codes.size(), 256u);
  for (size_t code = 0; code < 256; ++code) codes[code] = static_cast<char>(code);
  Stored& scales = made.folder.tensors.at(q + "_scale_inv");
  const float one = 1.0f;
  for (size_t at = 0; at < scales.bytes.size(); at += 4) std::memcpy(scales.bytes.data() + at, &one, 4);
  made.folder.write(scratch / "in", 1);
  made.folder.import(scratch / "in");
  const std::vector<float>& got = made.folder.values.at("blocks.0.attention.q.weight");
  for (int code = 0; code < 256; ++code) {
    const float want = static_cast<float>(value_of(code)), is = got[static_cast<size_t>(code)];
    EXPECT_TRUE(is == want || (std::isnan(is) && std::isnan(want))) << code;
    EXPECT_EQ(std::signbit(is), code >= 128) << code;
  }
}

TEST(HfFp8, AnExportIsPlainBf16) {
  const Scratch scratch;
  InFp8 made;
  made.folder.write(scratch / "in", 2);
  made.folder.export_to(scratch / "out", made.folder.import(scratch / "in"));
  const Json config = Json::parse(read_text(scratch / "out/config.json"));
  EXPECT_FALSE(config.contains("quantization_config"));
  Case again(config);
  again.import(scratch / "out");
  for (const auto& [name, values] : made.folder.values) {
    std::vector<char> narrow_bytes(values.size() * 2);
    narrow(DType::kBf16, values.data(), std::ssize(values), narrow_bytes.data());
    std::vector<float> rounded(values.size());
    widen(DType::kBf16, narrow_bytes.data(), std::ssize(values), rounded.data());
    EXPECT_EQ(again.values.at(name), rounded) << name;
  }
}

TEST(HfFp8, ATableThatKeepsNf4QuantisesTheNumbers) {
  const Scratch scratch;
  InFp8 made;
  made.folder.write(scratch / "in", 1);
  nn::ModelConfig model = made.folder.model;
  model.adapter.rank = 2, model.adapter.alpha = 4, model.adapter.targets = {"*"}, model.adapter.nf4 = true;
  const nn::ParameterTable table(model);
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, nn::Nf4Tensor> tensors;
  const auto place = [&](const std::string& name) {
    values[name].resize(static_cast<size_t>(table.at(name).size));
    return values[name].data();
  };
  import_weights(
      scratch / "in", model, table, place, [] {}, nullptr,
      [&](const std::string& name, nn::Nf4Tensor tensor) { tensors[name] = std::move(tensor); });
  EXPECT_EQ(tensors.size(), made.numbers.size());
  const std::vector<float>& numbers = made.numbers.at("model.layers.1.mlp.up_proj.weight");
  const nn::Nf4Tensor& up = tensors.at("blocks.1.mlp.up.weight");
  EXPECT_EQ(up.codes, nn::nf4_quantise(numbers.data(), std::ssize(numbers)).codes);
  EXPECT_EQ(up.type, DType::kBf16);
}

TEST(HfFp8, TensorsThatDoNotFitAreNamed) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight", scales = q + "_scale_inv";
  const auto expect_refusal = [&](const std::string& words, auto change) {
    const Scratch scratch;
    InFp8 made;
    change(made.folder.tensors);
    made.folder.write(scratch / "in", 1);
    const Error error = error_of([&] { made.folder.import(scratch / "in"); });
    EXPECT_EQ(error.code(), Code::kCheckpointIncompatible);
    EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
    EXPECT_NE(error.message().find(q), std::string::npos) << error.message();
  };
  expect_refusal("needs the tensor " + scales, [&](auto& t) { t.erase(scales); });
  expect_refusal("of the shape [2, 1], not [1, 2]", [&](auto& t) { t[scales].shape = {2, 1}; });
  expect_refusal("as I32 [1, 2], not 2 numbers of F32", [&](auto& t) { t[scales].dtype = "I32"; });
  expect_refusal("is F8_E5M2", [&](auto& t) { t[q].dtype = "F8_E5M2"; });
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()})
    expect_refusal("at index 1 of " + scales,
                   [&](auto& t) { std::memcpy(t[scales].bytes.data() + 4, &value, 4); });
}

TEST(HfFp8, OtherKindsOfFp8AreRefusedByName) {
  const auto refusal = [](const char* key, const Json& value) {
    Json config = config_of("llama");
    config["quantization_config"] = Json::parse(kQuantisation);
    if (value.is_null())
      config["quantization_config"].erase(key);
    else
      config["quantization_config"][key] = value;
    return error_of([&] { model_json(config.dump(), {}); }).message();
  };
  const auto expect = [](const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  expect(refusal("fmt", "e5m2"), "fmt \"e5m2\"");
  expect(refusal("weight_block_size", {64, 64}), "weight_block_size [64,64]");
  expect(refusal("weight_block_size", nullptr), "no weight_block_size");
  expect(refusal("activation_scheme", "static"), "activation_scheme \"static\"");
}

}  // namespace hf_fp8_test
}  // namespace hawser::checkpoint::hf
