// Further layers test: layers of a folder that predict further tokens, which models here do not have.
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_further_layers_test {

/// DeepSeek-V3 and GLM-4.5 are published with a layer that predicts one more token.
TEST(HfFolder, LayersThatPredictFurtherTokensAreLeftOutIfTheirKeyIsIgnored) {
  for (const std::string family : {"deepseek_v3", "glm4_moe"}) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    Case a(config_of(family));
    a.fill({});
    const auto own = a.tensors;
    a.tensors["model.layers.2.enorm.weight"] = own.at("model.norm.weight");
    a.config_["num_nextn_predict_layers"] = 1;
    a.write(scratch / "in", 2);
    EXPECT_NE(
        error_of([&] { model_json(a.config_.dump(), {}); }).message().find("/num_nextn_predict_layers is 1"),
        std::string::npos);
    EXPECT_NE(model_json(a.config_.dump(), {"num_nextn_predict_layers"}), "");
    a.export_to(scratch / "out", a.import(scratch / "in"));
    EXPECT_EQ(Json::parse(read_text(scratch / "out/config.json"))["num_nextn_predict_layers"], 0);
    Case again(Json::parse(read_text(scratch / "out/config.json")));
    again.import(scratch / "out");
    for (const auto& [name, values] : a.values)
      EXPECT_EQ(std::memcmp(values.data(), again.values.at(name).data(), 4 * values.size()), 0) << name;
    a.tensors["model.layers.3.enorm.weight"] = own.at("model.norm.weight");
    a.write(scratch / "more", 1);
    EXPECT_NE(error_of([&] { a.import(scratch / "more"); }).message().find("model.layers.3.enorm.weight"),
              std::string::npos);
  }
}

}  // namespace hf_further_layers_test
}  // namespace hawser::checkpoint::hf
