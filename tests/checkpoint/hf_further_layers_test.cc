// Further layers test: layers of a folder that predict further tokens are read and written as prediction
// depths (/model/ahead), with their copies of the embedding and of the head, or left out.
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_further_layers_test {

constexpr const char* kFamilies[] = {"deepseek_v3", "glm4_moe"};

Json published(const std::string& family) {
  Json config = config_of(family);
  config["num_nextn_predict_layers"] = 1;
  return config;
}

/// Returns a folder as it is published.
Case folder_of(const Json& config) {
  Case a(config);
  a.fill({});
  const std::string layer = "model.layers.2.";
  a.tensors[layer + "embed_tokens.weight"] = a.tensors.at("model.embed_tokens.weight");
  a.tensors[layer + "shared_head.head.weight"] = a.tensors.at("lm_head.weight");
  return a;
}

/// DeepSeek-V3 and GLM-4.5 are published with a layer that predicts one more token.
TEST(HfFolder, LayersThatPredictFurtherTokensAreLeftOutIfTheirKeyIsIgnored) {
  for (const std::string family : kFamilies) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    folder_of(published(family)).write(scratch / "in", 2);
    const std::string without = model_json(published(family).dump(), {"num_nextn_predict_layers"});
    EXPECT_FALSE(Json::parse(without)["model"].contains("ahead"));
    Case a(config_of(family));
    a.export_to(scratch / "out", a.import(scratch / "in"));
    EXPECT_EQ(Json::parse(read_text(scratch / "out/config.json"))["num_nextn_predict_layers"], 0);
    Case again(Json::parse(read_text(scratch / "out/config.json")));
    again.import(scratch / "out");
    for (const auto& [name, values] : a.values)
      EXPECT_EQ(std::memcmp(values.data(), again.values.at(name).data(), 4 * values.size()), 0) << name;
    Case more = folder_of(published(family));
    more.tensors["model.layers.3.enorm.weight"] = more.tensors.at("model.norm.weight");
    more.write(scratch / "more", 1);
    for (const Json& config : {config_of(family), published(family)}) {
      Case b(config);
      EXPECT_NE(error_of([&] { b.import(scratch / "more"); }).message().find("model.layers.3.enorm.weight"),
                std::string::npos);
    }
  }
}

TEST(HfFolder, LayersThatPredictFurtherTokensAreReadAndWrittenExactly) {
  for (const std::string family : kFamilies) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    const Case stored = folder_of(published(family));
    stored.write(scratch / "in", 2);
    EXPECT_EQ(Json::parse(model_json(stored.config_.dump(), {}))["model"]["ahead"], 1);
    Case a(published(family));
    ExtraFiles extra = a.import(scratch / "in");
    EXPECT_EQ(a.values.count("blocks.2.join.weight"), 1U);
    a.export_to(scratch / "out", extra);
    for (const char* name :
         {"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
      EXPECT_EQ(read_text(scratch / "out/" + name), read_text(scratch / "in/" + name)) << name;
    a.export_to(scratch / "own", {});  // without a record of the import
    EXPECT_EQ(Json::parse(read_text(scratch / "own/config.json"))["num_nextn_predict_layers"], 1);
    Case again(Json::parse(read_text(scratch / "own/config.json")));
    again.import(scratch / "own");
    for (const auto& [name, values] : a.values)
      EXPECT_EQ(std::memcmp(values.data(), again.values.at(name).data(), 4 * values.size()), 0) << name;
    EXPECT_NE(read_text(scratch / "own/model.safetensors").find("model.layers.2.shared_head.head.weight"),
              std::string::npos);
  }
}

TEST(HfFolder, AFurtherLayerSharesTheEmbeddingAndTheHead) {
  for (const std::string family : kFamilies)
    for (const char* name : {"embed_tokens.weight", "shared_head.head.weight"}) {
      const Scratch scratch;
      Case a = folder_of(published(family));
      a.tensors.at(std::string("model.layers.2.") + name).bytes[5] ^= 1;
      a.write(scratch / "in", 1);
      const std::string message = error_of([&] { a.import(scratch / "in"); }).message();
      EXPECT_NE(message.find(std::string("model.layers.2.") + name + " differs from"), std::string::npos)
          << message;
      EXPECT_NE(message.find("init.ignore_keys"), std::string::npos) << message;
    }
}

}  // namespace hf_further_layers_test
}  // namespace hawser::checkpoint::hf
