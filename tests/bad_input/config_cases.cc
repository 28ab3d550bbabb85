// Config cases: inputs that the JSON config parser refuses: invalid JSON, unknown fields, values of the wrong
// kind.
#include "tests/bad_input/case.h"
#include "tests/bad_input/site.h"

namespace hawser::bad_input {
namespace config_cases {

Case text(const std::string& json, int32_t status, std::vector<std::string> words) {
  return {"`" + json + "`", status, std::move(words), [json](Site&) { return parse(json); }};
}

/// A row with a config that is too long to show.
Case long_text(const std::string& what, int32_t status, std::vector<std::string> words,
               const std::function<std::string()>& make) {
  return {what, status, std::move(words), [make](Site&) { return parse(make()); }};
}

Case set(const std::string& pointer, const std::string& value, int32_t status,
         std::vector<std::string> words) {
  return {"set `" + pointer + "` to `" + value + "`", status, std::move(words), [=](Site&) {
            return with_config(sound_config(), [&](hws_config* config) {
              return hws_config_set(config, pointer.c_str(), value.c_str());
            });
          }};
}

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  result.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

std::vector<Case> syntax() {
  constexpr int32_t kParse = HWS_CONFIG_PARSE;
  return {
      text("", kParse, {"line 1, column", "end of input", "strict JSON"}),
      text("{", kParse, {"line 1, column 1", "end of input"}),
      text("{\"seed\": 1,}", kParse, {"line 1, column 12", "trailing"}),
      text("{'seed': 1}", kParse, {"line 1, column 2", "'"}),
      text("{\"seed\": 01}", kParse, {"line 1, column 11", "unexpected number"}),
      text("{\"seed\": 1} {}", kParse, {"line 1, column 13", "expected end of input"}),
      text("{\"seed\": NaN}", kParse, {"invalid literal", "strict JSON"}),
      text("// seed\n{}", kParse, {"line 1, column 1", "no comments"}),
      text("{\"preset\": \"gpt2\n\"}", kParse, {"line 2, column 0", "control character"}),
      text("seed: 1", kParse, {"line 1, column 1", "strict JSON"}),
      long_text("a byte that is not UTF-8: `{\"preset\": \"\\xff\"}`", kParse, {"UTF-8", "column 13"},
                [] { return std::string("{\"preset\": \"\xff\"}"); }),
      long_text("1,000,000 open brackets", kParse, {"nested deeper than 32", "no more than"},
                [] { return std::string(1000000, '['); }),
      long_text("`{\"model\":` 1,000,000 times", kParse, {"nested deeper than 32"},
                [] { return repeated("{\"model\":", 1000000); }),
      long_text("17 MiB of blanks", HWS_INVALID_ARGUMENT, {"`size` is 17825792", "at most 16777216"},
                [] { return std::string(17 << 20, ' '); }),
      long_text("a key of 1,000,000 letters", HWS_CONFIG_INVALID,
                {"unknown key \"kkk", "...\"", "keys of the config"},
                [] { return "{\"" + std::string(1000000, 'k') + "\": 1}"; }),
      long_text("100,000 unknown keys", HWS_CONFIG_INVALID, {"unknown key", "99800 more problems"},
                [] {
                  std::string json = "{";
                  for (int i = 0; i < 100000; ++i) json += (i ? ",\"_" : "\"_") + std::to_string(i) + "\":0";
                  return json + "}";
                }),
      long_text("an array of 100,000 layers", HWS_CONFIG_INVALID,
                {"/model/window_layers", "more than 65536", "use fewer"},
                [] { return "{\"model\":{\"window_layers\":[0" + repeated(",0", 99999) + "]}}"; }),
  };
}

std::vector<Case> fields() {
  constexpr int32_t kInvalid = HWS_CONFIG_INVALID;
  return {
      text("[]", kInvalid, {"config: expected", "got array"}),
      text("null", kInvalid, {"config: expected", "got null"}),
      text("{\"modle\": {}}", kInvalid, {"/modle: unknown key \"modle\"", "did you mean \"model\"?"}),
      text("{\"lr\": 0.1}", kInvalid, {"/lr: unknown key", "did you mean /optimizer/learning_rate?"}),
      text("{\"tensorboard\": true}", kInvalid,
           {"/tensorboard: unknown key", "did you mean /telemetry/tensorboard?", "folder"}),
      text("{\"telemetry\": {\"tensorboard\": true}}", kInvalid,
           {"/telemetry/tensorboard", "true", "string"}),
      text("{\"epochs\": 3}", kInvalid, {"/epochs", "did you mean /train/epochs?"}),
      text("{\"output_dir\": \"a\"}", kInvalid, {"/output_dir", "hawser train CONFIG --out DIR"}),
      text("{\"bf16\": true}", kInvalid, {"/bf16", "did you mean /precision?", "\"bf16\""}),
      text("{\"train\": {\"warmup_ratio\": 0.1}}", kInvalid,
           {"/train/warmup_ratio", "did you mean /schedule/warmup_steps?"}),
      text("{\"gradient_checkpointing\": true}", kInvalid, {"/recompute/policy", "full"}),
      text("{\"model\": {\"$schema\": \"a\"}}", kInvalid, {"/model/$schema", "unknown key"}),
      text("{\"model\": {\"n_layer\": 2}}", kInvalid, {"/model/n_layer", "did you mean \"layers\"?"}),
      text("{\"model\": {\"layers\": 2, \"layers\": 3}}", kInvalid,
           {"/model/layers", "appears twice", "keep one"}),
      text("{\"model\": {\"layers\": \"4\"}}", kInvalid,
           {"/model/layers", "string \"4\"", "write 4 without quotes"}),
      text("{\"model\": {\"layers\": 4.5}}", kInvalid, {"/model/layers", "number 4.5", "integer"}),
      text("{\"model\": {\"layers\": 1e3}}", kInvalid, {"/model/layers", "write 1000"}),
      text("{\"model\": {\"layers\": null}}", kInvalid, {"/model/layers", "null", "leave the field out"}),
      text("{\"model\": {\"layers\": 99999999999999999999}}", kInvalid,
           {"/model/layers", "too large for a 64-bit"}),
      text("{\"seed\": -1}", kInvalid, {"/seed", "-1", "use 0"}),
      text("{\"seed\": 18446744073709551616}", kInvalid, {"/seed", "too large for a 64-bit integer"}),
      text("{\"deterministic\": 1}", kInvalid, {"/deterministic", "true or false", "integer 1"}),
      text("{\"optimizer\": {\"learning_rate\": 1e999}}", kInvalid,
           {"/optimizer/learning_rate", "1e999", "finite"}),
      text("{\"optimizer\": {\"learning_rate\": \"fast\"}}", kInvalid,
           {"/optimizer/learning_rate", "\"fast\"", "number"}),
      text("{\"optimizer\": {\"kind\": \"adam\"}}", kInvalid,
           {"/optimizer/kind", "\"adam\" is not one of", "did you mean \"adamw\"?"}),
      text("{\"precision\": \"fp64\"}", kInvalid, {"/precision", "\"fp64\"", "\"fp32\"", "\"bf16\""}),
      text("{\"precision\": 1}", kInvalid, {"/precision", "integer 1"}),
      text("{\"model\": 3}", kInvalid, {"/model: expected", "integer 3"}),
      text("{\"data\": {\"sources\": \"a.bin\"}}", kInvalid, {"/data/sources", "array", "\"a.bin\""}),
      text("{\"data\": {\"sources\": [{\"file\": \"a\"}]}}", kInvalid,
           {"/data/sources/0/file", "did you mean \"path\"?"}),
      text("{\"data\": {\"path\": \"a\\u0000b\"}}", kInvalid, {"/data/path", "NUL", "remove"}),
      text("{\"a|b\\n\": 1}", kInvalid, {"/a|b?", "unknown key"}),
      text("{\"model\": {\"layer\": 2, \"width\": \"8\"}, \"sead\": 1}", kInvalid,
           {"/model/layer:", "/model/width:", "/sead:", "did you mean \"seed\"?"}),
  };
}

std::vector<Case> sets() {
  return {
      set("model/layers", "2", HWS_CONFIG_INVALID, {"model/layers", "/"}),
      set("/model/layres", "2", HWS_CONFIG_INVALID, {"/model/layres", "did you mean \"layers\"?"}),
      set("/model/layers/0", "2", HWS_CONFIG_INVALID, {"/model/layers"}),
      set("/model/layers", "two", HWS_CONFIG_INVALID,
          {"/model/layers", "`two` is not a JSON value", "give a number"}),
      set("/model/~2", "2", HWS_CONFIG_INVALID, {"/model/~2"}),
      set("/data/sources/5/path", "a", HWS_CONFIG_INVALID, {"/data/sources/5"}),
      set("/optimizer/kind", "adagrad", HWS_CONFIG_INVALID,
          {"/optimizer/kind", "\"adagrad\" is not one of", "adamw"}),
      set("/model", "{\"layers\": 2", HWS_CONFIG_INVALID, {"/model", "is not a JSON value"}),
      {"the preset `gpt3`",
       HWS_NOT_FOUND,
       {"gpt3", "gpt2"},
       [](Site&) {
         hws_config* config = nullptr;
         return hws_config_preset("gpt3", &config);
       }},
      {"explain `/model/heds`",
       HWS_NOT_FOUND,
       {"/model/heds", "did you mean"},
       [](Site&) {
         return with_config(sound_config(), [](hws_config* config) {
           hws_buffer* report = nullptr;
           return hws_config_explain(config, "/model/heds", &report);
         });
       }},
  };
}

}  // namespace config_cases

Area config_area() {
  using namespace config_cases;
  Area area = {"Configs",
               "Texts given to `hws_config_parse`, and single fields. A config is read to its end: all "
               "problems come in "
               "one message, and as `problems` in the details.",
               syntax()};
  for (const auto& more : {fields(), sets()}) area.cases.insert(area.cases.end(), more.begin(), more.end());
  return area;
}

}  // namespace hawser::bad_input
