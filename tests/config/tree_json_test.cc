// JSON config test: strict parsing of configs, and its error messages.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/config/problem_list.h"

namespace hawser::config {
namespace tree_json_test {

Error parse_error(std::string_view json) {
  return error_of([&] { ConfigTree::from_json(json); });
}

struct Refused {
  const char* json;
  Code code;
  const char* says;
};

TEST(ConfigJson, RefusesEveryLaxness) {
  const Refused cases[] = {
      {R"({"model": {"layers": "4"}})", Code::kConfigInvalid,
       "/model/layers: expected integer, got string \"4\"; write 4 without quotes"},
      {R"({"model": {"layers": 4.0}})", Code::kConfigInvalid, "expected integer, got number 4.0; write 4"},
      {R"({"model": {"layers": 1e2}})", Code::kConfigInvalid, "write 100"},
      {R"({"model": {"layers": 99999999999999999999}})", Code::kConfigInvalid,
       "too large for a 64-bit integer"},
      {R"({"model": {"layers": 9223372036854775808}})", Code::kConfigInvalid,
       "too large for a 64-bit integer"},
      {R"({"model": {"layers": true}})", Code::kConfigInvalid, "expected integer, got true"},
      {R"({"model": {"layers": null}})", Code::kConfigInvalid,
       "expected integer, got null; leave the field out"},
      {R"({"model": {"layers": [4]}})", Code::kConfigInvalid, "expected integer, got array"},
      {R"({"model": {"qk_norm": 1}})", Code::kConfigInvalid, "expected true or false, got integer 1"},
      {R"({"model": {"qk_norm": "true"}})", Code::kConfigInvalid, "write true without quotes"},
      {R"({"model": []})", Code::kConfigInvalid, "/model: expected object, got array"},
      {R"({"model": {"mlp": 1}})", Code::kConfigInvalid, "/model/mlp: expected string, got integer 1"},
      {R"({"model": {"mlp": 77}})", Code::kConfigInvalid, "/model/mlp: expected string, got integer 77"},
      {R"({"model": {"mlp": "gelu swiglu"}})", Code::kConfigInvalid, "is not one of \"gelu\", \"gelu_tanh\""},
      {R"({"model": {"mlp": "SwiGLU"}})", Code::kConfigInvalid, "did you mean \"swiglu\"?"},
      {R"({"model": {"mlp": ""}})", Code::kConfigInvalid, "is not one of"},
      {R"({"seed": -1})", Code::kConfigInvalid, "/seed: expected integer >= 0, got integer -1"},
      {R"({"preset": "a\u0000b"})", Code::kConfigInvalid, "NUL"},
      {R"({"optimizer": {"learning_rate": 1e999}})", Code::kConfigInvalid,
       "/optimizer/learning_rate: \"1e999\" is too large"},
      {R"({"optimizer": {"learning_rate": "nan"}})", Code::kConfigInvalid,
       "expected number, got string \"nan\""},
      {R"({"optimizer": {"learning_rate": NaN}})", Code::kConfigParse, "line 1, column 33"},
      {R"({"optimizer": {"learning_rate": Infinity}})", Code::kConfigParse, "line 1"},
      {R"({"seed": 1, "seed": 2})", Code::kConfigInvalid, "/seed: the key \"seed\" appears twice"},
      {R"({"seed": 1, // no)", Code::kConfigParse, "strict JSON"},
      {"{\"seed\": 1,\n \"device\": \"cpu\",}", Code::kConfigParse, "line 2, column 18"},
      {R"({"seed": 1} x)", Code::kConfigParse, "line 1"},
      {R"({seed: 1})", Code::kConfigParse, "line 1"},
      {R"({"seed": 01})", Code::kConfigParse, "line 1"},
      {R"({"seed": 1)", Code::kConfigParse, "line 1"},
      {"", Code::kConfigParse, "line 1, column"},
      {"\xff", Code::kConfigParse, "line 1"},
      {"{\"preset\": \"\xc3\x28\"}", Code::kConfigParse, "line 1"},
      {"[]", Code::kConfigInvalid, "config: expected object, got array"},
      {"3", Code::kConfigInvalid, "config: expected object, got integer 3"},
  };
  for (const Refused& refused : cases) {
    const Error error = parse_error(refused.json);
    EXPECT_EQ(error.code(), refused.code) << refused.json << "\n" << error.message();
    EXPECT_CONTAINS(error.message(), refused.says);
  }
  const Error nul = parse_error(std::string("{\"seed\": 1}") + '\0' + "{\"seed\": 2}");
  EXPECT_EQ(nul.code(), Code::kConfigParse);
  EXPECT_CONTAINS(nul.message(), "byte 12 is NUL");
}

TEST(ConfigJson, AcceptsWhatIsMeant) {
  const ConfigTree tree = ConfigTree::from_json(
      R"({"seed": 18446744073709551615, "optimizer": {"learning_rate": 1}, "model": {"rope": {"theta": 500000}}})");
  std::string text;
  EXPECT_TRUE(tree.get("/seed", &text));
  EXPECT_EQ(text, "18446744073709551615");
  EXPECT_TRUE(tree.get("/optimizer/learning_rate", &text));
  EXPECT_EQ(text, "1.0");
}

TEST(ConfigJson, ReportsAllProblemsAtOnce) {
  const Error error = parse_error(R"({
    "modle": {"layers": 3},
    "model": {"n_layer": 4, "layers": "4", "mlp": "swigl", "width": 1.5, "layers": 6},
    "optimizer": {"lr": 1e-3},
    "learning_rate": 3,
    "data": {"sources": [{"path": "a"}, {"file": "b", "weight": "1"}]}
  })");
  EXPECT_EQ(error.code(), Code::kConfigInvalid);
  const std::vector<std::string> lines = lines_of(error.message());
  const std::vector<std::string> expected = {
      "/modle: unknown key \"modle\"; did you mean \"model\"?",
      "/model/n_layer: unknown key \"n_layer\"; did you mean \"layers\"?",
      "/model/layers: expected integer, got string \"4\"; write 4 without quotes",
      "/model/mlp: \"swigl\" is not one of \"gelu\", \"gelu_tanh\", \"swiglu\", \"geglu\", "
      "\"geglu_exact\" or \"swiglu_clamped\"; did you "
      "mean \"swiglu\"?",
      "/model/width: expected integer, got number 1.5; write 2",
      "/model/layers: the key \"layers\" appears twice; keep one of them",
      "/optimizer/lr: unknown key \"lr\"; did you mean \"learning_rate\"?",
      "/learning_rate: unknown key \"learning_rate\"; did you mean /optimizer/learning_rate?",
      "/data/sources/1/file: unknown key \"file\"; did you mean \"path\"?",
      "/data/sources/1/weight: expected number, got string \"1\"; write 1 without quotes",
  };
  EXPECT_EQ(lines, expected);
  const auto details = nlohmann::json::parse(error.details());
  ASSERT_EQ(details.at("problems").size(), expected.size());
  EXPECT_EQ(details.at("problems")[0].at("pointer"), "/modle");
  EXPECT_EQ(details.at("problems")[0].at("fix"), "did you mean \"model\"?");
}

TEST(ConfigJson, SurvivesHostileInput) {
  EXPECT_EQ(parse_error(std::string(100000, '[')).code(), Code::kConfigParse);
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"a\":";
  EXPECT_EQ(parse_error(deep).code(), Code::kConfigParse);
  EXPECT_EQ(parse_error(std::string((16u << 20) + 1, ' ')).code(), Code::kConfigParse);
  std::string many = "{";
  for (int i = 0; i < 5000; ++i) many += "\"k" + std::to_string(i) + "\":0,";
  const Error error = parse_error(many + "\"z\":0}");
  EXPECT_LT(error.message().size(), 100000u);
  EXPECT_CONTAINS(error.message(), "more problems");
  EXPECT_EQ(lines_of(parse_error(R"({"a\nb\u0001": 1})").message()).size(), 1u);
}

TEST(ConfigJson, CanonicalTextReadsBackEqual) {
  const char* json = R"({"train": {"steps": 7}, "preset": "gpt2-124m", "seed": 5,
      "model": {"window_layers": [0, 2], "window": 16, "rope": {}, "norm_eps": 1e-6},
      "data": {"sources": [{"weight": 0.25, "path": "a\"b/ü"}, {}], "format": "tokens"}})";
  const ConfigTree tree = ConfigTree::from_json(json);
  const std::string text = tree.to_json();
  EXPECT_EQ(ConfigTree::from_json(text).to_json(), text);
  EXPECT_LT(text.find("preset"), text.find("seed"));
  EXPECT_LT(text.find("\"window\""), text.find("window_layers"));
  EXPECT_FALSE(contains(text, "rope"));
  EXPECT_EQ(ConfigTree().to_json(), "{}");
}

TEST(ConfigJson, OtherProgramsWordsAreAnsweredWithOurs) {
  const std::pair<const char*, const char*> words[] = {
      {R"({"epochs": 3})", "/epochs: unknown key \"epochs\"; did you mean /train/epochs?"},
      {R"({"train": {"num_train_epochs": 3}})", "did you mean \"epochs\"?"},
      {R"({"output_dir": "x"})", "--out DIR"},
      {R"({"BF16": true})", "did you mean /precision? give \"bf16\""},
      {R"({"model": {"gradient_checkpointing": true}})", "did you mean /recompute/policy? \"full\""},
      {R"({"optimizer": {"warmup_ratio": 0.1}})", "did you mean /schedule/warmup_steps?"},
      {R"({"per_device_train_batch_size": 8})", "did you mean /batch/micro_batch?"},
      {R"({"save-freq": 8})", "did you mean /checkpoint/every?"},
      {R"({"lora_r": 8})", "did you mean /adapter/rank?"},
      // A field's own name, or a typing error in it, takes precedence over foreign names.
      {R"({"checkpoint": {"every_": 8}})", "did you mean \"every\"?"},
      {R"({"train": {"learning_rate": 1}})", "did you mean /optimizer/learning_rate?"},
  };
  for (const auto& [json, says] : words) {
    const Error error = parse_error(json);
    EXPECT_EQ(error.code(), Code::kConfigInvalid) << json;
    EXPECT_CONTAINS(error.message(), says);
  }
}

TEST(ConfigJson, TheSchemaMayBeNamedAtTheTop) {
  const ConfigTree tree =
      ConfigTree::from_json(R"({"$schema": "https://example.org/hawser.json", "seed": 3})");
  EXPECT_EQ(nlohmann::json::parse(tree.to_json()), nlohmann::json({{"seed", 3}}));
  EXPECT_EQ(nlohmann::json::parse(json_schema()).at("properties").at("$schema").at("type"), "string");
  EXPECT_CONTAINS(parse_error(R"({"model": {"$schema": "x"}})").message(), "/model/$schema: unknown key");
}

}  // namespace tree_json_test
}  // namespace hawser::config
