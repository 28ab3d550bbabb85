// Pattern test: the matcher for adapter_config.json agrees with Python's own re.fullmatch and keeps its
// bounds.
#include "engine/checkpoint/hf/peft_pattern.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/hf/peft_settings.h"
#include "tests/checkpoint/scratch.h"

namespace hawser::checkpoint::hf {
namespace peft_pattern_test {

using Json = nlohmann::json;

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

double seconds_of(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string problem_with(const std::string& pattern) {
  const Error error = error_of([&] { PythonPattern(pattern, "target_modules"); });
  EXPECT_EQ(error.code(), Code::kConfigInvalid);
  return error.message();
}

TEST(PeftPattern, FindsWhatPythonFinds) {
  std::ifstream file(HAWSER_CHECKPOINT_FIXTURES "/python_patterns.jsonl");
  int cases = 0, refused = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const Json expected = Json::parse(line);
    const auto pattern = expected.at("pattern").get<std::string>();
    SCOPED_TRACE(pattern);
    if (expected.contains("error")) {
      problem_with(pattern);
      ++refused;
      continue;
    }
    const PythonPattern mine(pattern, "target_modules");
    for (const std::string text : expected.at("matches")) EXPECT_TRUE(mine.matches_whole(text)) << text;
    for (const std::string text : expected.at("others")) EXPECT_FALSE(mine.matches_whole(text)) << text;
  }
  EXPECT_GT(cases, 800);
  EXPECT_GT(refused, 100);
}

/// PEFT puts (?:.*\.)?(?:...) around the keys of rank_pattern and alpha_pattern.
TEST(PeftPattern, MatchesPathEndsAsTheWrappedExpressionDoes) {
  for (const std::string pattern :
       {"q_proj", "h.1.attn", "a|b", "^a", "b$", ".*", "", "1", "[^.]+", "\\ba"}) {
    const PythonPattern plain(pattern, "rank_pattern"),
        wrapped("(?:.*\\.)?(?:" + pattern + ")", "rank_pattern");
    for (const std::string path :
         {"", "a", "x.a", "xa", "x.h.1.attn", "x.h21.attn", "a.b", "b.", ".", "layers.1.q_proj"})
      EXPECT_EQ(plain.matches_path_end(path), wrapped.matches_whole(path)) << pattern << " in " << path;
  }
}

TEST(PeftPattern, RefusesByNameWhatNoAutomatonExpresses) {
  for (const char* pattern : {"(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?P<x>a)(?P=x)", "(?i)a",
                              "(?i:a)", "(?>a)", "a*+", "a?+", "a{2}+", "(?#a)", "\\x41", "\xff"})
    EXPECT_NE(problem_with(pattern).find("cannot read the regular expression"), std::string::npos) << pattern;
}

TEST(PeftPattern, IsBoundedInDepthAndSize) {
  EXPECT_TRUE(PythonPattern(repeated("(", 64) + "a" + repeated(")", 64), "").matches_whole("a"));
  for (const size_t groups : {65, 12500, 400000})
    EXPECT_NE(problem_with(repeated("(", groups) + "a" + repeated(")", groups)).find("64 levels"),
              std::string::npos);
  for (const std::string& pattern :
       std::vector<std::string>{"(q{1,1000}){1,1000}", "a{10001}", "a{99999999999999999999}", "(){1000000}",
                                "((((((((a{9}){9}){9}){9}){9}){9}){9}){9})", "a{4000}|b{4000}|c{4000}"})
    EXPECT_NE(problem_with(pattern).find("more than 10000 states"), std::string::npos) << pattern;
  EXPECT_TRUE(PythonPattern("a{9999}", "").matches_whole(std::string(9999, 'a')));
  problem_with(std::string(20000, 'a'));
  problem_with("[" + repeated("ab", 10000) + "]");
}

/// A backtracking matcher takes 2^30 steps or more for these patterns.
TEST(PeftPattern, IsLinearInTheText) {
  const std::string text = std::string(2000, 'a') + "!";
  for (const std::string& pattern : std::vector<std::string>{
           "(a*)*b", "(a|a)*b", "(a|aa)+b", "(.*a){20}b", repeated("a?", 400) + repeated("a", 400) + "b"}) {
    const PythonPattern mine(pattern, "target_modules");
    EXPECT_LT(seconds_of([&] { EXPECT_FALSE(mine.matches_whole(text)); }), 5.0) << pattern;
  }
}

PeftModules some_modules() {
  PeftModules modules;
  for (int layer = 0; layer < 200; ++layer) {
    const std::string path = "model.layers." + std::to_string(layer);
    modules.linears[path + ".self_attn.q_proj"] = "blocks." + std::to_string(layer) + ".attention.q.weight";
    modules.others[path + ".input_layernorm"] = {};
  }
  return modules;
}

TEST(PeftSettings, ManyNamesTakeLinearTime) {
  const PeftModules modules = some_modules();
  const auto seconds_for = [&](int names) {
    Json json = {{"peft_type", "LORA"}, {"r", 2}, {"lora_alpha", 2}};
    for (const char* key : {"modules_to_save", "target_modules", "exclude_modules", "layers_to_transform"}) {
      json[key] = Json::array();
      for (int i = 0; i < names; ++i) json[key].push_back("name_" + std::to_string(i));
    }
    const std::string text = json.dump();
    return seconds_of([&] {
      const Error error = error_of([&] { read_peft_settings(text, modules); });
      EXPECT_LT(error.message().size(), 20000u);
      EXPECT_NE(error.message().find("modules_to_save has further problems"), std::string::npos);
    });
  };
  const double few = seconds_for(2000), many = seconds_for(100000);
  EXPECT_LT(many, 50 * few * 6 + 2.0) << "against " << few << " s for a fiftieth of the names";
}

TEST(PeftSettings, NamesMeanTheEndsOfPaths) {
  PeftModules modules = some_modules();
  const Json json = {{"peft_type", "LORA"},
                     {"target_modules", {"1.self_attn.q_proj", "self_attn.q_proj_", "proj"}},
                     {"modules_to_save", {"7.input_layernorm"}}};
  const PeftSettings settings = read_peft_settings(json.dump(), modules);
  EXPECT_EQ(settings.modules.size(), 1u);  // names match after a dot
  EXPECT_TRUE(settings.modules.contains("model.layers.1.self_attn.q_proj"));
  EXPECT_EQ(settings.saved.size(), 20u);  // the names 7, 17, 27, ... match with or without a dot before them
}

}  // namespace peft_pattern_test
}  // namespace hawser::checkpoint::hf
