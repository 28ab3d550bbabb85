// Score test: folders of reward models are exact in both directions for every family with such a class in
// Transformers, and a language model can start a reward model.
#include "engine/checkpoint/hf/family.h"
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace hf_score_test {

Json with_score(Json config) {
  config["architectures"] = {architecture(config["model_type"].get<std::string>(), nn::HeadKind::kScore)};
  config["id2label"] = {{"0", "good"}};
  return config;
}

TEST(HfScore, FoldersComeAndGoUnchanged) {
  for (const std::string& family : family_names()) {
    if (family == "dots1" || family == "glm4_moe") continue;  // Transformers has no such class for these
    for (const bool tied : {true, false}) {
      SCOPED_TRACE(family);
      const Scratch scratch;
      Json config = with_score(config_of(family));
      config["tie_word_embeddings"] = tied;  // Transformers keeps the key, but the class does not read it
      Case a(config);
      EXPECT_TRUE(a.model.has_score());
      a.fill({"BF16", true, 1});
      EXPECT_EQ(a.tensors.at("score.weight").shape, (std::vector<int64_t>{1, 24}));
      EXPECT_EQ(a.tensors.count("lm_head.weight"), 0u);
      a.write(scratch / "in", 1);
      a.export_to(scratch / "out", a.import(scratch / "in"));
      expect_same_folder(scratch / "in", scratch / "out");
      EXPECT_EQ(obstacle(family, a.model), "");
    }
  }
}

TEST(HfScore, FamiliesWithoutSuchAClassSaySo) {
  for (const char* family : {"dots1", "glm4_moe"}) {
    nn::ModelConfig model = Case(config_of(family)).model;
    model.head = nn::HeadKind::kScore;
    EXPECT_EQ(obstacle(family, model), "it has no class with a score head");
  }
}

/// The language-model head is dropped, and the export is a reward model's, with the dtypes of the import.
TEST(HfScore, ALanguageModelStartsOne) {
  for (const std::string family : {"gpt2", "llama", "gemma2"}) {
    SCOPED_TRACE(family);
    const Scratch scratch;
    Json config = config_of(family);
    config["tie_word_embeddings"] = false, config["architectures"] = {architecture(family, {})};
    Case language(config), score(with_score(config));
    language.fill({"BF16", true, 1});
    language.write(scratch / "in", 1);
    write_text(scratch / "in/tokenizer_config.json",
               R"({"pad_token": {"content": "<pad>"}, "eos_token": "</s>"})");
    write_text(scratch / "in/tokenizer.json", R"({"added_tokens": [{"id": 4, "content": "<pad>"}]})");
    for (const nn::Parameter& p : score.table->all())
      score.values[p.name].assign(static_cast<size_t>(p.size), 0.5f);
    const ExtraFiles extra = import_weights(
        scratch / "in", score.model, *score.table,
        [&](const std::string& name) { return score.values.at(name).data(); }, [] {});
    EXPECT_EQ(score.values.at("score.weight")[0], 0.5f) << "not read";
    score.export_to(scratch / "out", extra);
    const Json made = Json::parse(read_text(scratch / "out/config.json"));
    EXPECT_EQ(made["architectures"], with_score(config)["architectures"]);
    EXPECT_EQ(made["id2label"], (Json{{"0", "LABEL_0"}}));
    EXPECT_EQ(made["pad_token_id"], family == "gemma2" ? 0 : 4) << "Gemma has one of its own";
    const auto file = SafetensorsFile::open(Folder::open(scratch / "out"), "model.safetensors");
    EXPECT_EQ(file.find("score.weight")->dtype, "BF16");
    EXPECT_EQ(file.find("lm_head.weight"), nullptr);
  }
}

/// Transformers reads the score at the last token that is not pad_token_id, and Hawser at the last token.
TEST(HfScore, AnExportsPaddingTokenEndsNoText) {
  const std::string with_two =
      R"({"added_tokens": [{"id": 4, "content": "<pad>"}, {"id": 5, "content": "</s>"}]})";
  struct Row {
    const char* name;
    Json padding, ends;           // config.json of the language model
    std::string settings;         // tokenizer_config.json
    std::string generation = "";  // generation_config.json
    Json exported;
  };
  const std::vector<Row> rows = {
      {"the end token pads, and the tokenizer has none for it", 5, 5, R"({"eos_token": "</s>"})", "",
       nullptr},
      {"one of several end tokens pads", 5, {3, 5}, "{}", "", nullptr},
      {"only the tokenizer says that it ends texts", 5, nullptr, R"({"eos_token": "</s>"})", "", nullptr},
      {"only the generation config says so", 5, nullptr, "{}", R"({"eos_token_id": [3, 5]})", nullptr},
      {"the tokenizer has another one", 5, 5, R"({"pad_token": "<pad>", "eos_token": "</s>"})", "", 4},
      {"the tokenizer pads by the end token", nullptr, 5, R"({"pad_token": "</s>"})", "", nullptr},
      {"another token pads", 7, 5, "{}", "", 7},
      {"a token counted from the end", -1, 5, "{}", "", -1},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Scratch scratch;
    Json config = config_of("llama");
    config["architectures"] = {architecture("llama", {})};
    config["pad_token_id"] = row.padding, config["eos_token_id"] = row.ends;
    Case language(config);
    language.fill({"F32", true, 1});
    language.write(scratch / "in", 1);
    write_text(scratch / "in/tokenizer_config.json", row.settings);
    write_text(scratch / "in/tokenizer.json", with_two);
    if (!row.generation.empty()) write_text(scratch / "in/generation_config.json", row.generation);
    config.erase("pad_token_id");
    Case score(with_score(config));
    score.model.padding_token = language.model.padding_token;
    for (const nn::Parameter& p : score.table->all())
      score.values[p.name].assign(static_cast<size_t>(p.size), 0.5f);
    const ExtraFiles extra = import_weights(
        scratch / "in", score.model, *score.table,
        [&](const std::string& name) { return score.values.at(name).data(); }, [] {});
    score.export_to(scratch / "out", extra);
    EXPECT_EQ(Json::parse(read_text(scratch / "out/config.json")).at("pad_token_id"), row.exported);
  }
}

TEST(HfScore, AnImportWhosePaddingTokenEndsTextsIsRefused) {
  for (const Json& ends : {Json(5), Json{3, 5}}) {
    Json config = with_score(config_of("llama"));
    config["pad_token_id"] = 5, config["eos_token_id"] = ends;
    const Error error = error_of([&] { read_config(config.dump(), {}, Strictness::kStrict); });
    EXPECT_EQ(error.code(), Code::kConfigInvalid);
    EXPECT_NE(std::string(error.what()).find("/pad_token_id is 5, which is also in eos_token_id"),
              std::string::npos)
        << error.what();
    EXPECT_TRUE(read_config(config.dump(), {"pad_token_id"}, Strictness::kStrict).model.has_score());
    config["architectures"] = {architecture("llama", {})};
    EXPECT_EQ(read_config(config.dump(), {}, Strictness::kStrict).model.padding_token, 5);
  }
}

}  // namespace hf_score_test
}  // namespace hawser::checkpoint::hf
