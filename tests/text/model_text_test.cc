// Model text test: a folder's files define a model's text: names and templates as in Transformers, and the
// tokens that end an answer.
#include "engine/text/model_text.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/base/error.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace model_text_test {

using testing::kModuleFolder;

constexpr const char* kChatML =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The small gpt2 tokenizer with three additional special tokens.
struct Folder {
  TextFiles files;
  int64_t first = 0;

  Folder() {
    Json file =
        Json::parse(testing::read_file(std::string(HAWSER_GOLDEN) + "/tokenizers/gpt2/tokenizer.json"));
    first = Tokenizer(file.dump(), "gpt2", kModuleFolder).vocabulary_size();
    int64_t id = first;
    for (const char* token : {"<|im_start|>", "<|im_end|>", "<|end|>"})
      file["added_tokens"].push_back({{"id", id++},
                                      {"content", token},
                                      {"single_word", false},
                                      {"lstrip", false},
                                      {"rstrip", false},
                                      {"normalized", false},
                                      {"special", true}});
    files["tokenizer.json"] = file.dump();
  }
  int32_t im_end() const { return static_cast<int32_t>(first + 1); }
  int32_t end() const { return static_cast<int32_t>(first + 2); }
  ModelText open() const { return ModelText(files, "model", kModuleFolder); }
  std::string refusal(Code code) const {
    try {
      open();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "was opened";
    return "";
  }
};

std::string render(const ModelText& text, bool with_tools = false) {
  return text.chat_template(with_tools)
      ->render(R"({"messages": [{"role": "user", "content": "Hi"}]})", 0)
      .text;
}

TEST(ModelText, ATokenizerAloneHasNeitherTemplateNorEnd) {
  const Folder folder;
  const ModelText text = folder.open();
  EXPECT_EQ(text.tokenizer().vocabulary_size(), folder.first + 3);
  EXPECT_EQ(text.chat_template(), nullptr);
  EXPECT_EQ(text.end_of_text(), std::nullopt);
  EXPECT_TRUE(text.end_tokens().empty());
  EXPECT_TRUE(text.special_names().empty());
  EXPECT_EQ(text.template_digest(), "");
}

TEST(ModelText, SettingsNameTokensAsTextsOrObjects) {
  Folder folder;
  folder.files["tokenizer_config.json"] =
      R"({"bos_token": null, "eos_token": {"__type": "AddedToken", "content": "<|end|>"}, "pad_token": "<pad>",
          "model_max_length": 8, "add_bos_token": true, "extra_special_tokens": {"image_token": "<image>"}})";
  const ModelText text = folder.open();
  const std::map<std::string, std::string> names = {
      {"eos_token", "<|end|>"}, {"image_token", "<image>"}, {"pad_token", "<pad>"}};
  EXPECT_EQ(text.special_names(), names);
  EXPECT_EQ(text.end_of_text(), folder.end());
  EXPECT_EQ(text.end_tokens(), std::vector<int32_t>{folder.end()});
}

TEST(ModelText, TheMapOfSpecialTokensCountsOnlyInFoldersFromBeforeAddedTokensWereListed) {
  Folder folder;
  folder.files["special_tokens_map.json"] = R"({"eos_token": "<|im_end|>"})";
  folder.files["tokenizer_config.json"] = R"({"eos_token": "<|end|>"})";
  EXPECT_EQ(folder.open().end_of_text(), folder.im_end());
  folder.files["tokenizer_config.json"] = R"({"eos_token": "<|end|>", "added_tokens_decoder": {}})";
  EXPECT_EQ(folder.open().end_of_text(), folder.end());
}

TEST(ModelText, AFileOfItsOwnIsTheTemplate) {
  Folder folder;
  folder.files["tokenizer_config.json"] = R"({"chat_template": "settings"})";
  const std::string in_settings = folder.open().template_digest();
  EXPECT_EQ(render(folder.open()), "settings");
  folder.files["chat_template.jinja"] = "{{ messages[0].content }}!";
  EXPECT_EQ(render(folder.open()), "Hi!");
  EXPECT_NE(folder.open().template_digest(), in_settings);
}

TEST(ModelText, ChatsWithToolsMayHaveATemplateOfTheirOwn) {
  Folder folder;
  folder.files["tokenizer_config.json"] =
      R"({"chat_template": [{"name": "default", "template": "usual"}, {"name": "tool_use", "template": "tools"},
                            {"name": "rag", "template": "other"}]})";
  EXPECT_EQ(render(folder.open()), "usual");
  EXPECT_EQ(render(folder.open(), true), "tools");
  folder.files["tokenizer_config.json"] = R"({"chat_template": "only one"})";
  EXPECT_EQ(render(folder.open(), true), "only one");
}

TEST(ModelText, WhatFollowsAnAnswerEndsIt) {
  Folder folder;
  folder.files["chat_template.jinja"] = kChatML;
  EXPECT_EQ(folder.open().end_tokens(), std::vector<int32_t>{folder.im_end()});
  folder.files["generation_config.json"] = "{\"eos_token_id\": [" + std::to_string(folder.end()) + ", 0]}";
  EXPECT_EQ(folder.open().end_tokens(), (std::vector<int32_t>{0, folder.im_end(), folder.end()}));
  folder.files["chat_template.jinja"] = "{{ raise_exception('never') }}";
  EXPECT_EQ(folder.open().end_tokens(), (std::vector<int32_t>{0, folder.end()}));
}

TEST(ModelText, TheModelsOwnConfigCountsWithoutOneForGeneration) {
  Folder folder;
  folder.files["config.json"] = R"({"eos_token_id": 7})";
  EXPECT_EQ(folder.open().end_tokens(), std::vector<int32_t>{7});
  folder.files["generation_config.json"] = R"({"eos_token_id": [8, 9]})";
  EXPECT_EQ(folder.open().end_tokens(), (std::vector<int32_t>{7, 8, 9}));
}

/// If a folder has no tokenizer_config.json, or its settings name no eos_token, eos_token_id ends a text.
TEST(ModelText, AnEndThatNoTokenNamesIsThatOfTheConfig) {
  Folder folder;
  EXPECT_FALSE(folder.open().end_of_text());
  EXPECT_EQ(folder.open().special_names().count("eos_token"), 0u);
  folder.files["generation_config.json"] = R"({"eos_token_id": [8, 9]})";
  EXPECT_EQ(folder.open().end_of_text(), 8u);
  folder.files["config.json"] = R"({"eos_token_id": 7})";
  EXPECT_EQ(folder.open().end_of_text(), 7u);
  EXPECT_EQ(folder.open().special_names().at("eos_token"), folder.open().tokenizer().token(7).text);
  folder.files["config.json"] = R"({"eos_token_id": 99999999})";
  EXPECT_EQ(folder.open().end_of_text(), 8u) << "no token has the config's";
  folder.files["tokenizer_config.json"] =
      "{\"eos_token\": \"" + folder.open().tokenizer().token(5).text + "\"}";
  EXPECT_EQ(folder.open().end_of_text(), 5u);
}

TEST(ModelText, DigestsTellFilesApart) {
  Folder folder;
  const std::string digest = folder.open().digest();
  EXPECT_EQ(digest, tokenizer_digest(folder.files));
  EXPECT_EQ(digest.size(), std::string("xxh3-128:").size() + 32);
  folder.files["tokenizer.json"] += " ";
  EXPECT_NE(folder.open().digest(), digest);
  EXPECT_EQ(tokenizer_digest({}), "");
}

TEST(ModelText, ErrorsNameTheFile) {
  Folder folder;
  folder.files["chat_template.jinja"] = "{% if %}";
  EXPECT_NE(folder.refusal(Code::kDataInvalid).find("model/chat_template.jinja"), std::string::npos);
  folder.files = Folder().files;
  folder.files["tokenizer_config.json"] = "{\"eos_token\": ";
  EXPECT_NE(folder.refusal(Code::kDataInvalid).find("model/tokenizer_config.json is not JSON"),
            std::string::npos);
  folder.files["tokenizer_config.json"] = "[]";
  EXPECT_NE(folder.refusal(Code::kDataInvalid).find("not a JSON object"), std::string::npos);
  folder.files = Folder().files;
  folder.files["generation_config.json"] = R"({"eos_token_id": "</s>"})";
  EXPECT_NE(folder.refusal(Code::kDataInvalid).find("eos_token_id is \"</s>\""), std::string::npos);
  folder.files.erase("tokenizer.json");
  EXPECT_NE(folder.refusal(Code::kNotFound).find("model has no tokenizer.json"), std::string::npos);
}

TEST(ModelText, AFolderIsReadAsFarAsItHasTheFiles) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "hawser-model-text";
  std::filesystem::create_directories(folder / "blobs");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  write("blobs/template", "linked");
  write("tokenizer.json", Folder().files["tokenizer.json"]);
  write("model.safetensors", "weights");
  std::filesystem::create_symlink("blobs/template", folder / "chat_template.jinja");
  const TextFiles files = read_text_files(folder.string());
  std::filesystem::remove_all(folder);
  EXPECT_EQ(files.size(), 2u);
  EXPECT_EQ(files.at("tokenizer.json"), Folder().files["tokenizer.json"]);
  EXPECT_EQ(files.at("chat_template.jinja"), "linked");
  EXPECT_TRUE(read_text_files(folder.string()).empty());
}

}  // namespace model_text_test
}  // namespace hawser::text
