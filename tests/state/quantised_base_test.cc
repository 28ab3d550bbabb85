// Quantised base tests: folders that bitsandbytes quantised are the base of an adapter. Their bytes stay
// as they are, with absmax in 8 bits or in f32, and adapters train as on a plain base of the decoded
// numbers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/nn/nf4.h"
#include "tests/harness/small_config.h"

namespace hawser {
namespace quantised_base_test {

namespace fs = std::filesystem;
using checkpoint::SafetensorsFile;
using checkpoint::TensorInfo;
using train::TensorKind;
using train::Trainer;

/// A tensor of a file to write.
struct Stored {
  TensorInfo info;
  std::string bytes;
};

template <typename T>
std::string bytes_of(const T& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

class QuantisedBase : public ::testing::Test {
 protected:
  QuantisedBase() : tokens_(testing::write_tokens(folder_, 20000)) {}

  config::ConfigTree llama() {
    config::ConfigTree config = testing::small_config(tokens_, "fp32", 2);
    config.set("/model/window", "0");
    config.set("/model/window_layers", "[]");
    return config;
  }

  config::ConfigTree on(const std::string& folder, const char* base) {
    config::ConfigTree config = llama();
    config.set("/init", Json{{"from", folder_.file(folder)}}.dump());
    config.set("/adapter", Json{{"rank", 4}, {"base", base}}.dump());
    return config;
  }

  std::unique_ptr<Trainer> create(const config::ConfigTree& config) {
    return Trainer::create(config, false, &cancel_);
  }

  /// Returns the tensors that bitsandbytes writes for one linear.
  static std::vector<Stored> quantised(const TensorInfo& linear, const std::string& bytes, bool nested) {
    std::vector<float> numbers(bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    const nn::Nf4Tensor t = nn::nf4_quantise(numbers.data(), std::ssize(numbers));
    std::vector<Stored> parts;
    const auto add = [&](const char* suffix, const char* dtype, std::vector<int64_t> shape,
                         std::string data) {
      parts.push_back({{linear.name + suffix, dtype, std::move(shape)}, std::move(data)});
    };
    Json state = {{"quant_type", "nf4"}, {"blocksize", 64}, {"dtype", "float32"}, {"shape", linear.shape}};
    add("", "U8", {std::ssize(t.codes), 1}, bytes_of(t.codes));
    add(".quant_map", "F32", {16}, bytes_of(t.values));
    if (nested) {
      state.update({{"nested_blocksize", 256}, {"nested_dtype", "float32"}, {"nested_offset", t.offset}});
      add(".absmax", "U8", {std::ssize(t.absmax)}, bytes_of(t.absmax));
      add(".nested_absmax", "F32", {std::ssize(t.nested_absmax)}, bytes_of(t.nested_absmax));
      add(".nested_quant_map", "F32", {256}, bytes_of(t.nested_values));
    } else {
      std::vector<float> absmax;
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (i % kNf4Block == 0) absmax.push_back(0);
        absmax.back() = std::max(absmax.back(), std::abs(numbers[i]));
      }
      add(".absmax", "F32", {std::ssize(absmax)}, bytes_of(absmax));
    }
    const std::string text = state.dump();
    add(".quant_state.bitsandbytes__nf4", "U8", {std::ssize(text)}, text);
    return parts;
  }

  /// Writes the folder `from` to `to`, with every linear quantised except `left`.
  void quantise(const std::string& from, const std::string& to, bool nested, bool said,
                const std::string& left = "none") {
    const auto in = checkpoint::Folder::open(folder_.file(from));
    const auto file = SafetensorsFile::open(in, "model.safetensors");
    std::vector<Stored> tensors;
    for (const TensorInfo& info : file.tensors()) {
      std::string bytes(static_cast<size_t>(info.bytes()), '\0');
      file.read(info, 0, bytes.data(), info.bytes());
      const bool plain = !info.name.ends_with("_proj.weight") || info.name.find(left) != info.name.npos;
      if (plain) {
        tensors.push_back({{info.name, info.dtype, info.shape}, bytes});
      } else {
        for (Stored& part : quantised(info, bytes, nested)) tensors.push_back(std::move(part));
      }
    }
    fs::create_directory(folder_.file(to));
    Json config = Json::parse(testing::text_of_file(folder_.file(from + "/config.json")));
    config["quantization_config"] = {{"quant_method", "bitsandbytes"},
                                     {"load_in_4bit", true},
                                     {"bnb_4bit_quant_type", "nf4"},
                                     {"bnb_4bit_use_double_quant", said}};
    std::ofstream(folder_.file(to + "/config.json")) << config.dump();
    std::vector<TensorInfo> infos;
    for (const Stored& tensor : tensors) infos.push_back(tensor.info);
    checkpoint::SafetensorsWriter writer(checkpoint::Folder::open(folder_.file(to)), "model.safetensors",
                                         infos, {{"format", "pt"}});
    for (const Stored& tensor : tensors) writer.append(tensor.bytes.data(), std::ssize(tensor.bytes));
    writer.finish();
  }

  static std::map<std::string, std::vector<float>> weights(Trainer& trainer) {
    std::map<std::string, std::vector<float>> all;
    for (const Json& p : Json::parse(trainer.tensors().json()))
      all[p.at("name")] =
          testing::tensor(trainer, TensorKind::kWeight, p.at("name").get<std::string>().c_str(),
                          p.at("count").get<int64_t>());
    return all;
  }

  const testing::ScratchFolder folder_;
  const std::string tokens_;
  std::atomic<bool> cancel_{false};
};

TEST_F(QuantisedBase, ItsBytesTrainAsTheNumbersThatTheyStandFor) {
  create(llama())->exports().model_to(folder_.file("plain"), "");
  for (const bool nested : {true, false}) {
    const std::string folder = nested ? "nested" : "f32";
    quantise("plain", folder, nested, nested);
    const auto kept = create(on(folder, "nf4")), stored = create(on(folder, "stored"));
    EXPECT_EQ(weights(*kept), weights(*stored)) << folder;
    for (int step = 0; step < 3; ++step)  // only one of them computes q, k and v in one product
      EXPECT_NEAR(kept->train_step().loss, stored->train_step().loss, 1e-5);
  }
}

/// The engine quantises a linear that bitsandbytes left out.
TEST_F(QuantisedBase, APlainLinearAmongThemIsQuantised) {
  create(llama())->exports().model_to(folder_.file("plain"), "");
  std::vector<float> once;
  for (const bool nested : {true, false}) {
    const std::string folder = nested ? "nested" : "f32", name = "blocks.0.mlp.down.weight";
    quantise("plain", folder, nested, nested, "0.mlp.down");
    const auto kept = weights(*create(on(folder, "nf4"))), stored = weights(*create(on(folder, "stored")));
    for (const auto& [other, values] : stored) EXPECT_EQ(kept.at(other) == values, other != name) << other;
    if (nested) once = kept.at(name);
    EXPECT_EQ(kept.at(name), once);
  }
}

TEST_F(QuantisedBase, AConfigThatSaysOtherAbsmaxIsRefused) {
  create(llama())->exports().model_to(folder_.file("plain"), "");
  for (const bool nested : {true, false}) {
    const std::string folder = nested ? "nested" : "f32";
    quantise("plain", folder, nested, !nested);
    const std::string said =
        testing::refused(Code::kCheckpointIncompatible, [&] { create(on(folder, "nf4")); });
    EXPECT_NE(said.find(nested ? "set it to true" : "set it to false"), std::string::npos) << said;
    create(on(folder, "stored"));
  }
}

}  // namespace quantised_base_test
}  // namespace hawser
