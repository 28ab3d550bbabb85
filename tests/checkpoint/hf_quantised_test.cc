// Quantised folder test: folders whose linears bitsandbytes quantised to NF4.
#include <cmath>
#include <limits>

#include "engine/nn/nf4.h"
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_quantised_test {

const char* const kQuantisation =
    R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false, "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": true, "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_quant_storage": "uint8"})";

template <typename T>
Stored stored(const char* dtype, const T& values) {
  const auto count = static_cast<int64_t>(values.size());
  return {dtype,
          {count},
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]))};
}

/// A Llama whose linears are quantised; `numbers` holds the values that the codes represent.
struct Quantised {
  Case folder{config_of("llama")};
  std::map<std::string, std::vector<float>> numbers;

  explicit Quantised(bool nested = true, const std::string& dtype = "float16") {
    folder.fill({.dtype = "F32"});
    std::mt19937 random(9);
    std::normal_distribution<float> normal(0.0f, 0.05f);
    const std::map<std::string, Stored> plain = folder.tensors;
    for (const auto& [name, tensor] : plain) {
      std::vector<float> values(tensor.bytes.size() / 4);
      for (float& value : values) value = normal(random);
      folder.tensors[name].bytes.assign(reinterpret_cast<const char*>(values.data()), tensor.bytes.size());
      if (name.ends_with("_proj.weight")) quantise(name, tensor.shape, values, nested, dtype);
    }
    folder.config_["quantization_config"] = Json::parse(kQuantisation);
  }

  void quantise(const std::string& name, const std::vector<int64_t>& shape, const std::vector<float>& values,
                bool nested, const std::string& dtype) {
    nn::Nf4Tensor t = nn::nf4_quantise(values.data(), static_cast<int64_t>(values.size()));
    Json state = {{"quant_type", "nf4"}, {"blocksize", 64}, {"dtype", dtype}, {"shape", shape}};
    if (nested) {
      state.update({{"nested_blocksize", 256}, {"nested_dtype", "float32"}, {"nested_offset", t.offset}});
      folder.tensors[name + ".absmax"] = stored("U8", t.absmax);
      folder.tensors[name + ".nested_absmax"] = stored("F32", t.nested_absmax);
      folder.tensors[name + ".nested_quant_map"] = stored("F32", t.nested_values);
    } else {
      t.absmax.clear(), t.plain_absmax.assign(static_cast<size_t>(t.blocks()), 0.25f);
      folder.tensors[name + ".absmax"] = stored("F32", t.plain_absmax);
    }
    folder.tensors[name] = stored("U8", t.codes);
    folder.tensors[name].shape = {static_cast<int64_t>(t.codes.size()), 1};
    folder.tensors[name + ".quant_map"] = stored("F32", t.values);
    folder.tensors[name + ".quant_state.bitsandbytes__nf4"] = stored("U8", state.dump());
    numbers[name].resize(values.size());
    t.type = dtype == "float32" ? DType::kF32 : dtype == "bfloat16" ? DType::kBf16 : DType::kF16;
    nf4_decode(t, numbers[name].data());
  }
};

TEST(HfQuantised, LinearsBecomeTheNumbersThatTheyStandFor) {
  for (const bool nested : {true, false})
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      const Scratch scratch;
      Quantised q(nested, dtype);
      q.folder.write(scratch / "in", 2);
      q.folder.import(scratch / "in");
      EXPECT_EQ(q.numbers.size(), 14u);
      for (const char* part : {"q", "o"})
        EXPECT_EQ(q.folder.values.at(std::string("blocks.1.attention.") + part + ".weight"),
                  q.numbers.at(std::string("model.layers.1.self_attn.") + part + "_proj.weight"))
            << nested << dtype;
      EXPECT_EQ(q.folder.values.at("blocks.0.mlp.down.weight"),
                q.numbers.at("model.layers.0.mlp.down_proj.weight"));
    }
}

/// Imports into a table that stores NF4 and returns the tensors by our names.
std::map<std::string, nn::Nf4Tensor> import_nf4(Quantised* q, const std::string& path, bool nested = true) {
  nn::ModelConfig model = q->folder.model;
  model.adapter.nf4_nested = nested;
  model.adapter.rank = 2, model.adapter.alpha = 4, model.adapter.targets = {"*"}, model.adapter.nf4 = true;
  const nn::ParameterTable table(model);
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, nn::Nf4Tensor> tensors;
  const auto place = [&](const std::string& name) {
    values[name].resize(static_cast<size_t>(table.at(name).size));
    return values[name].data();
  };
  std::map<std::string, std::string> digests;
  import_weights(
      path, model, table, place, [] {}, &digests,
      [&](const std::string& name, nn::Nf4Tensor tensor) { tensors[name] = std::move(tensor); });
  return tensors;
}

TEST(HfQuantised, ATableThatKeepsNf4GetsTheBytesAsTheyAre) {
  const Scratch scratch;
  Quantised q(true, "bfloat16");
  const std::string plain = "model.layers.0.mlp.down_proj.weight";
  for (const char* part :
       {".absmax", ".nested_absmax", ".quant_map", ".nested_quant_map", ".quant_state.bitsandbytes__nf4"})
    q.folder.tensors.erase(plain + part);
  q.folder.tensors[plain] = {"F32", q.folder.table->at("blocks.0.mlp.down.weight").shape, ""};
  std::vector<float> numbers = q.numbers.at(plain);
  q.folder.tensors[plain].bytes.assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4);
  q.folder.write(scratch / "in", 2);
  const auto tensors = import_nf4(&q, scratch / "in");
  EXPECT_EQ(tensors.size(), 14u);
  const nn::Nf4Tensor& own = tensors.at("blocks.1.attention.o.weight");
  const auto bytes = [](const auto& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  const std::string o = "model.layers.1.self_attn.o_proj.weight";
  EXPECT_EQ(bytes(own.codes), q.folder.tensors.at(o).bytes);
  EXPECT_EQ(bytes(own.absmax), q.folder.tensors.at(o + ".absmax").bytes);
  EXPECT_EQ(bytes(own.nested_absmax), q.folder.tensors.at(o + ".nested_absmax").bytes);
  EXPECT_EQ(own.type, DType::kBf16);
  const nn::Nf4Tensor& quantised = tensors.at("blocks.0.mlp.down.weight");
  EXPECT_EQ(quantised.type, DType::kF32);
  EXPECT_EQ(quantised.codes, nn::nf4_quantise(numbers.data(), std::ssize(numbers)).codes);
}

TEST(HfQuantised, ATableThatKeepsNf4TakesAbsmaxAsItKeepsThem) {
  const Scratch scratch;
  for (const bool nested : {true, false}) {
    Quantised q(nested);
    const std::string folder = scratch / (nested ? "nested" : "f32");
    q.folder.write(folder, 1);
    const Error error = error_of([&] { import_nf4(&q, folder, !nested); });
    EXPECT_EQ(error.code(), Code::kCheckpointIncompatible);
    EXPECT_NE(error.message().find("bnb_4bit_use_double_quant"), std::string::npos) << error.message();
    const nn::Nf4Tensor own = import_nf4(&q, folder, nested).at("blocks.1.attention.o.weight");
    EXPECT_EQ(own.absmax.empty(), !nested);
    std::vector<float> numbers(static_cast<size_t>(own.size));
    nn::nf4_decode(own, numbers.data());
    EXPECT_EQ(numbers, q.numbers.at("model.layers.1.self_attn.o_proj.weight"));
  }
}

TEST(HfQuantised, AnExportIsPlainAndMeansTheSame) {
  const Scratch scratch;
  Quantised q;
  q.folder.write(scratch / "in", 2);
  q.folder.export_to(scratch / "out", q.folder.import(scratch / "in"));
  const Json config = Json::parse(read_text(scratch / "out/config.json"));
  EXPECT_FALSE(config.contains("quantization_config"));
  Case again(config);
  again.import(scratch / "out");
  EXPECT_EQ(again.values, q.folder.values);
}

TEST(HfQuantised, TensorsThatDoNotFitAreNamed) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  const auto refusal = [&](auto change) {
    const Scratch scratch;
    Quantised made;
    change(made.folder.tensors);
    made.folder.write(scratch / "in", 1);
    const Error error = error_of([&] { made.folder.import(scratch / "in"); });
    EXPECT_EQ(error.code(), Code::kCheckpointIncompatible);
    return error.message();
  };
  const auto has = [](const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  has(refusal([&](auto& t) { t.erase(q + ".absmax"); }), "needs the tensor " + q + ".absmax");
  has(refusal([&](auto& t) { t[q + ".nested_absmax"] = stored("F32", std::vector<float>(7)); }),
      "not 1 numbers of F32");
  has(refusal([&](auto& t) { t[q].dtype = "I8"; }), "as I8");
  const auto state = [&](const char* from, const char* to) {
    return refusal([&](auto& t) {
      std::string& text = t[q + ".quant_state.bitsandbytes__nf4"].bytes;
      text.replace(text.find(from), std::strlen(from), to);
      t[q + ".quant_state.bitsandbytes__nf4"].shape = {static_cast<int64_t>(text.size())};
    });
  };
  has(state("\"nf4\"", "\"fp4\""), "supported is nf4 in blocks of 64");
  has(state(":64", ":128"), "supported is nf4 in blocks of 64");
  has(state("float16", "float64"), "was quantised from float64");
  has(state("[32,24]", "[24,32]"), "is [24, 32] in nf4, not [32, 24]");
  has(state(":256", ":128"), "nested blocks of 256");
  has(refusal([&](auto& t) {
        Stored& stored_state = t[q + ".quant_state.bitsandbytes__nf4"];
        Json json = Json::parse(stored_state.bytes);
        json["nested_offset"] = nullptr;
        stored_state = stored("U8", json.dump());
      }),
      "nested_offset is null");
}

TEST(HfQuantised, TablesHaveFiniteNumbersOnly) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const bool nested : {true, false})
    for (const std::string part : {".quant_map", ".nested_quant_map"})
      for (const float value : {nan, infinity, -infinity}) {
        if (!nested && part == ".nested_quant_map") continue;  // only nested tensors have this map
        const Scratch scratch;
        Quantised made(nested);
        std::string& bytes = made.folder.tensors[q + part].bytes;
        std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
        made.folder.write(scratch / "in", 1);
        const Error error = error_of([&] { made.folder.import(scratch / "in"); });
        EXPECT_EQ(error.code(), Code::kCheckpointIncompatible) << part << value;
        EXPECT_NE(error.message().find(q + part), std::string::npos) << error.message();
      }
}

TEST(HfQuantised, OtherQuantisationsAreRefusedByName) {
  const auto refusal = [](const char* key, const Json& value) {
    Json config = config_of("llama");
    config["quantization_config"] = Json::parse(kQuantisation);
    config["quantization_config"][key] = value;
    return error_of([&] { model_json(config.dump(), {}); }).message();
  };
  for (const char* method : {"gptq", "awq", "fbgemm_fp8"})
    EXPECT_NE(refusal("quant_method", method).find(std::string("has quant_method \"") + method),
              std::string::npos);
  EXPECT_NE(refusal("load_in_8bit", true).find("in 8 bits"), std::string::npos);
  EXPECT_NE(refusal("bnb_4bit_quant_type", "fp4").find("\"fp4\"; only \"nf4\""), std::string::npos);
}

}  // namespace hf_quantised_test
}  // namespace hawser::checkpoint::hf
