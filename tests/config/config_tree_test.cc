// Config tree test: set, overlay, precedence, get and explain.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/config/problem_list.h"

namespace hawser::config {
namespace config_tree_test {

std::string value_of(const ConfigTree& tree, const char* pointer) {
  std::string text;
  return tree.get(pointer, &text) ? text : "-";
}

nlohmann::json explained(const ConfigTree& tree, const char* pointer) {
  return nlohmann::json::parse(explain(tree, pointer));
}

TEST(ConfigSet, TakesJsonOrPlainText) {
  ConfigTree tree;
  tree.set("/model/layers", "4");
  tree.set("/precision", "bf16");
  tree.set("/model/mlp", "\"swiglu\"");
  tree.set("/data/path", "some file.txt");
  tree.set("/cpu", R"({"threads": 2})");
  EXPECT_EQ(value_of(tree, "/model/layers"), "4");
  EXPECT_EQ(value_of(tree, "/precision"), "\"bf16\"");
  EXPECT_EQ(value_of(tree, "/data/path"), "\"some file.txt\"");
  EXPECT_EQ(value_of(tree, "/cpu/threads"), "2");
  EXPECT_EQ(value_of(tree, "/cpu"), R"({"threads":2})");
}

TEST(ConfigSet, MakesAndChangesArrayElements) {
  ConfigTree tree;
  tree.set("/data/sources/0/path", "a");
  tree.set("/data/sources/-/path", "b");
  tree.set("/data/sources/0/weight", "0.5");
  tree.set("/data/sources/2", R"({"path": "c"})");
  tree.set("/model/window_layers", "[1, 2]");
  tree.set("/model/window_layers/1", "3");
  EXPECT_EQ(value_of(tree, "/data/sources"), R"([{"path":"a","weight":0.5},{"path":"b"},{"path":"c"}])");
  EXPECT_EQ(value_of(tree, "/model/window_layers"), "[1,3]");
  EXPECT_EQ(value_of(tree, "/data/sources/1/path"), "\"b\"");
}

TEST(ConfigSet, RefusesWithoutChangingAnything) {
  ConfigTree tree =
      ConfigTree::from_json(R"({"model": {"layers": 2}, "data": {"sources": [{"path": "a"}]}})");
  const std::string before = tree.to_json();
  const struct {
    const char *pointer, *value, *says;
  } cases[] = {
      {"/model/layer", "4", "/model/layer: there is no such field; did you mean \"layers\"?"},
      {"model/layers", "4", "not a JSON pointer; write it as /section/field"},
      {"/model/layers", "four", "`four` is not a JSON value"},
      {"/model/layers", "4.5", "expected integer"},
      {"/model/layers", "\"4\"", "write 4 without quotes"},
      {"/model/layers/0", "4", "/model/layers has no fields"},
      {"/model/mlp", "swigl", "did you mean \"swiglu\"?"},
      {"/model/mlp", "3", "expected string, got integer 3"},
      {"/data/path", "3", "expected string, got integer 3"},
      {"/data/path", "\xff", "not UTF-8"},
      {"/data/sources/2/path", "x", "the array has 1 elements, so there is no element 2"},
      {"/data/sources/01/path", "x", "not the index of an array element"},
      {"/data/sources/99999999999999999999/path", "x", "not the index of an array element"},
      {"/data/sources/x", "{}", "not the index of an array element"},
      {"/data/sources/0/weight", "[]", "expected number, got array"},
      {"/model/~2", "1", "not a JSON pointer"},
      {"/learning_rate", "1", "did you mean /optimizer/learning_rate?"},
      {"/model", R"({"layers": 1, "width": "x"})", "/model/width: expected integer"},
      {"", "[]", "expected object"},
  };
  for (const auto& c : cases) {
    const Error error = error_of([&] { tree.set(c.pointer, c.value); });
    EXPECT_TRUE(error.code() == Code::kConfigInvalid || error.code() == Code::kConfigParse) << c.pointer;
    EXPECT_CONTAINS(error.message(), c.says);
    EXPECT_EQ(tree.to_json(), before) << c.pointer;
  }
}

TEST(ConfigPrecedence, DefaultPresetImportedFileSet) {
  ConfigTree tree = ConfigTree::from_json(R"({"preset": "gpt2-124m", "model": {"layers": 3}})");
  EXPECT_EQ(value_of(tree, "/model/width"), "768");
  tree.overlay(R"({"model": {"width": 96, "layers": 9, "heads": 4}})", Origin::kImported);
  EXPECT_EQ(value_of(tree, "/model/width"), "96") << "imported is above the preset";
  EXPECT_EQ(value_of(tree, "/model/layers"), "3") << "and below the file";
  tree.set("/model/layers", "5");
  EXPECT_EQ(value_of(tree, "/model/layers"), "5");
  tree.overlay(R"({"model": {"layers": 9}})", Origin::kFile);
  EXPECT_EQ(value_of(tree, "/model/layers"), "5");
  EXPECT_EQ(explained(tree, "/model/layers").at("origin"), "set");
  EXPECT_EQ(explained(tree, "/model/width").at("origin"), "imported");
  EXPECT_EQ(explained(tree, "/model/context").at("origin"), "preset");
  EXPECT_EQ(explained(tree, "/model/norm_weight_offset").at("origin"), "default");
  EXPECT_EQ(explained(tree, "/model/head_dim").at("origin"), "rule");
  EXPECT_EQ(value_of(tree, "/model/norm_weight_offset"), "-");
}

/// Writing the preset's fields in place of its name changes nothing else, whatever fields the config itself
/// sets.
TEST(ConfigPrecedence, APresetCanBeWrittenOut) {
  for (const std::string& preset : preset_names()) {
    SCOPED_TRACE(preset);
    ConfigTree named = ConfigTree::from_json(R"({"preset": ")" + preset + R"(", "data": {"path": "a.txt"},
      "batch": {"grad_accum_steps": 3}, "schedule": {"warmup_steps": 7}})");
    const ConfigTree written = ConfigTree::from_json(named.to_json_without_preset());
    nlohmann::json expected = nlohmann::json::parse(resolved_json(named)),
                   found = nlohmann::json::parse(resolved_json(written));
    expected.erase("preset"), found.erase("preset");
    EXPECT_EQ(found, expected);
    EXPECT_FALSE(nlohmann::json::parse(written.to_json()).contains("preset"));
    EXPECT_EQ(written.to_json(), written.to_json_without_preset());
  }
  EXPECT_EQ(ConfigTree::from_json("{}").to_json_without_preset(), ConfigTree().to_json());
  EXPECT_THROW((void)ConfigTree::from_json(R"({"preset": "nope"})").to_json_without_preset(), Error);
}

TEST(ConfigPrecedence, ARuleOnlyFillsWhatNobodySaid) {
  ConfigTree tree = ConfigTree::from_json(R"({"data": {"vocabulary": "characters"}})");
  tree.overlay(R"({"model": {"vocab_size": 65}})", Origin::kRule);
  EXPECT_EQ(value_of(tree, "/model/vocab_size"), "65");
  EXPECT_EQ(explained(tree, "/model/vocab_size").at("origin"), "rule");
  tree.set("/model/vocab_size", "70");
  tree.overlay(R"({"model": {"vocab_size": 65}})", Origin::kRule);
  EXPECT_EQ(value_of(tree, "/model/vocab_size"), "70");
}

TEST(ConfigPrecedence, ALaterPathReplacesEarlierSources) {
  ConfigTree tree = ConfigTree::from_json(
      R"({"preset": "quickstart", "data": {"sources": [{"path": "a"}, {"path": "b"}]}})");
  tree.set("/data/path", "c");
  const ResolvedConfig resolved = resolve(tree);
  ASSERT_EQ(resolved.data.sources.size(), 1u);
  EXPECT_EQ(resolved.data.sources[0].path, "c");
  EXPECT_CONTAINS(
      problem_at(
          problems_of(R"({"preset": "quickstart", "data": {"path": "c", "sources": [{"path": "a"}]}})"),
          "/data/sources"),
      "both data.path and data.sources are given");
}

TEST(ConfigExplain, SaysWhereAValueComesFrom) {
  const ConfigTree tree = ConfigTree::from_json(R"({"model": {"width": 64, "heads": 4}})");
  const nlohmann::json derived = explained(tree, "/model/head_dim");
  EXPECT_EQ(derived.at("pointer"), "/model/head_dim");
  EXPECT_EQ(derived.at("value"), 16);
  EXPECT_EQ(derived.at("rule"), "model.head_dim = width / heads");
  EXPECT_EQ(derived.at("maximum"), 256);
  EXPECT_TRUE(derived.at("default").is_null());
  const nlohmann::json rate = explained(tree, "/optimizer/learning_rate");
  EXPECT_EQ(rate.at("origin"), "default");
  EXPECT_EQ(rate.at("default"), 3e-4);
  EXPECT_TRUE(rate.at("rule").is_null());
  const nlohmann::json warmup = explained(tree, "/schedule/warmup_steps");
  EXPECT_EQ(warmup.at("unit"), "steps");
  EXPECT_CONTAINS(warmup.at("doc").get<std::string>(), "Steps in which the rate rises");
  EXPECT_EQ(explained(tree, "/data/path").at("origin"), "unset");
}

TEST(ConfigExplain, ListsSectionsAndTheWhole) {
  const ConfigTree tree = ConfigTree::from_json(R"({"model": {"width": 64, "heads": 0}})");
  const nlohmann::json section = explained(tree, "/model/bias");
  EXPECT_EQ(section.size(), 10u);
  EXPECT_EQ(section[0].at("pointer"), "/model/bias/q");
  EXPECT_GT(explained(tree, "").size(), 90u) << "works on a config with problems too";
  EXPECT_EQ(explained(tree, "/data/sources").at("type"), "array");
}

TEST(ConfigExplain, UnknownPointersAreNotFound) {
  const ConfigTree tree;
  const Error error = error_of([&] { explain(tree, "/model/heds"); });
  EXPECT_EQ(error.code(), Code::kNotFound);
  EXPECT_CONTAINS(error.message(), "did you mean \"heads\"?");
  EXPECT_EQ(error_of([&] { explain(tree, "model"); }).code(), Code::kNotFound);
}

TEST(ConfigSchema, JsonSchemaDescribesEveryField) {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  EXPECT_EQ(schema.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema.at("additionalProperties"), false);
  const nlohmann::json& model = schema.at("$defs").at("Model");
  EXPECT_EQ(model.at("properties").at("layers").at("maximum"), 10000);
  EXPECT_EQ(model.at("properties").at("mlp").at("enum").size(), 6u);
  EXPECT_EQ(model.at("properties").at("rope").at("$ref"), "#/$defs/Rope");
  EXPECT_EQ(schema.at("$defs").at("OptimizerSection").at("properties").at("beta1").at("exclusiveMaximum"),
            1.0);
  EXPECT_EQ(schema.at("properties").at("preset").at("enum").size(), preset_names().size());
  for (const auto& [name, table] : schema.at("$defs").items()) {
    for (const auto& [key, field] : table.at("properties").items()) {
      EXPECT_TRUE(field.contains("type") || field.contains("$ref")) << name << "." << key;
    }
  }
  EXPECT_GT(binary_schema().size(), 1000u);
}

}  // namespace config_tree_test
}  // namespace hawser::config
