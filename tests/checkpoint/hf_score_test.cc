// Folders of reward models: exact both ways for every family that Transformers has such a class for, and what a language model
// gives one to start with.
#include "engine/checkpoint/hf/family.h"
#include "tests/checkpoint/hf_folder_case.h"

namespace hawser::checkpoint::hf {
namespace {

Json with_score(Json config) {
  config["architectures"] = {architecture(config["model_type"].get<std::string>(), nn::HeadKind::kScore)};
  config["id2label"] = {{"0", "good"}};
  return config;
}

TEST(HfScore, FoldersComeAndGoUnchanged) {
  for (const std::string family : kFamilies) {
    if (family == "dots1") continue;  // has no such class
    for (const bool tied : {true, false}) {
      SCOPED_TRACE(family);
      const Scratch scratch;
      Json config = with_score(config_of(family));
      config["tie_word_embeddings"] = tied;  // Transformers keeps the key, and the class does not read it
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
  nn::ModelConfig model = Case(config_of("dots1")).model;
  model.head = nn::HeadKind::kScore;
  EXPECT_EQ(obstacle("dots1", model), "no class of it ends in a score");
}

/// The head stays behind, and the export is a reward model's, with the types of the import.
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

}  // namespace
}  // namespace hawser::checkpoint::hf
