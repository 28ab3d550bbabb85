// Tests that every rule of text_rules.h holds in this tree, and finds the violations in a small bad tree.
#include "tests/rules/text_rules.h"

#include <gtest/gtest.h>

namespace hawser::rules {
namespace text_rules_test {

using Lines = std::vector<std::string>;

struct Rule {
  const char* name;
  Problems (*check)(const Tree&, const Exceptions&);
  Tree good, bad;
  const char* exceptions = nullptr;  ///< the file with the exceptions of the real tree
};

template <Problems (*check)(const Tree&)>
Problems without_exceptions(const Tree& tree, const Exceptions&) {
  return check(tree);
}

Lines function_of(size_t lines) {
  Lines text(lines, "  f();");
  text.front() = "void g() {";
  text.back() = "}";
  return text;
}

std::vector<Rule> rules() {
  const SourceFile cases{"tests/harness/op_cases_norm.cc", {"rows.add(\"norm_forward\");"}};
  const std::string table = "kernels/include/table.h";
  return {
      {"FilesStayShort",
       long_files,
       {{"engine/a.cc", Lines(400)}},
       {{"engine/a.cc", Lines(401)}},
       "tests/rules/long_files.txt"},
      {"FunctionsStayShort",
       long_functions,
       {{"engine/a.cc", function_of(60)}},
       {{"engine/a.cc", function_of(61)}},
       "tests/rules/long_functions.txt"},
      {"StrategiesAreKnownInOnePlace",
       strategies_by_name,
       {{"engine/parallel/compose.cc", {"if (config.mesh.pp > 1)"}},
        {"engine/ranks/rank.cc", {"fail(\"mesh.pp is {}\");"}}},
       {{"engine/ranks/rank.cc", {"if (config.mesh.pp > 1)", "a();  // mesh.pp", "at(mesh::Axis::kTp);"}}},
       "tests/rules/strategy_lines.txt"},
      {"FilesOpenWithAComment",
       without_exceptions<missing_opening_comments>,
       {{"tests/a.sh", {"#!/bin/sh", "# What it is.", "true"}}},
       {{"engine/a.cc", {"#include <new>", "// Too late."}}}},
      {"VariationIsAFileNotAnIf",
       without_exceptions<conditions>,
       {{"engine/a.h", {"#ifndef A_H", "#define A_H"}}},
       {{"engine/a.cc", {"  # ifdef A"}}}},
      {"NamesSayWhatAFileIsAbout",
       without_exceptions<empty_names>,
       {{"engine/base/error.h", {}}},
       {{"engine/utils/error.h", {}}}},
      {"TheLibraryHasNoSideEffects",
       without_exceptions<side_effects_of_the_library>,
       {{"engine/a.cc", {"comm.abort(error);  // exit(1)"}}},
       {{"kernels/a.cc", {"  std::abort();"}}}},
      {"TheCommandPrintsInOnePlace",
       without_exceptions<prints_of_the_command>,
       {{"bindings/cli/a.cc", {"out(\"to stdout\");"}}},
       {{"bindings/cli/a.cc", {"  std::printf(\"a\");"}}}},
      {"JsonIsTheKindThatSurvivesAFullHeap",
       without_exceptions<plain_json>,
       {{"tests/a.cc", {"nlohmann::json a;"}}},
       {{"capi/src/a.cc", {"nlohmann::json a;"}}}},
      {"JsonIsParsedWithABound",
       without_exceptions<unbounded_json>,
       {{"bindings/cli/a.cc", {"auto a = parse_json(text);"}}},
       {{"examples/service/a.cc", {"auto a = nlohmann::ordered_json::parse(text);"}}}},
      {"CommentsEndWithinTheColumnsOfThePage",
       without_exceptions<long_comments>,
       {{"engine/a.h", {"// " + std::string(107, 'x'), "  f(\"" + std::string(110, 'x') + "\");"}}},
       {{"engine/a.h", {"int a;  ///< " + std::string(100, 'x')}}}},
      {"EveryKernelHasARowInTheOpCaseTable",
       without_exceptions<kernels_without_cases>,
       {{table, {"  KERNEL(norm_forward, NormForward) \\"}}, cases},
       {{table, {"  KERNEL(norm_backward, NormBackward) \\"}}, cases}},
  };
}

TEST(TextRules, FindWhatBreaksThem) {
  for (const Rule& rule : rules()) {
    EXPECT_EQ(rule.check(rule.good, {}), Problems{}) << rule.name;
    EXPECT_EQ(rule.check(rule.bad, {}).size(), 1u) << rule.name;
  }
}

TEST(TextRules, HoldInEveryFile) {
  for (const Rule& rule : rules()) {
    const Exceptions allowed = rule.exceptions ? exceptions(lines_of(rule.exceptions)) : Exceptions{};
    for (const std::string& problem : rule.check(source_tree(), allowed))
      ADD_FAILURE() << rule.name << ": " << problem;
  }
}

TEST(TextRules, NobodyIsToldToInstallAnotherProject) {
  const Tree good = {
      {"README.md",
       {"pip install --no-index --find-links dist 'hawser-train[text]'", "pip install wandb; hawser log R"}},
      {"a.cc", {"  f(\"pip install --no-index --find-links dist \"", "    \"hawser-train\");"}},
      {"Cargo.toml", {"name = \"hawser\"", "hawser-train = { path = \"../hawser\" }"}},
      {"pyproject.toml", {"hawser = \"hawser.__main__:main\""}},
      {"a.md", {"conda install --override-channels -c file:///dist/conda hawser", "the module hawser"}}};
  EXPECT_EQ(foreign_names(good), Problems{});
  const std::vector<Lines> bad = {{"pip install hawser"},
                                  {"pip install --no-index --find-links dist 'hawser[text]'"},
                                  {"pip install --find-links dist hawser-train"},
                                  {"  f(\"pip install \"", "    \"--no-index hawser\");"},
                                  {"pip install --no-index \\", "  hawser"},
                                  {"uv pip install hawser"},
                                  {"cargo add hawser"},
                                  {"cargo install --path . hawser-sys"},
                                  {"hawser = \"0.1\""},
                                  {"hawser-sys = { version = \"0.1\" }"},
                                  {"conda install libhawser-text"}};
  for (const Lines& lines : bad) EXPECT_EQ(foreign_names({{"a.md", lines}}).size(), 1u) << lines[0];
}

TEST(TextRules, NoFileTellsToInstallAnotherProject) {
  ASSERT_GT(text_tree().size(), 1000u);
  for (const std::string& problem : foreign_names(text_tree())) ADD_FAILURE() << problem;
}

TEST(TextRules, AFileMayOpenWithItsOwnHeaderIfThatOpensWithAComment) {
  const SourceFile header{"engine/a.h", {"// What it is.", "#pragma once"}},
      bare{"engine/a.h", {"#pragma once"}};
  const SourceFile own{"engine/a.cc", {"#include \"engine/a.h\""}}, other{"engine/b.cc", own.lines};
  EXPECT_EQ(missing_opening_comments({header, own}), Problems{});
  EXPECT_EQ(missing_opening_comments({header, other}).size(), 1u);
  EXPECT_EQ(missing_opening_comments({bare, own}).size(), 2u);
}

TEST(TextRules, ExceptionsOnlyShrink) {
  const Exceptions allowed = exceptions({"# path lines", "engine/a.cc 500"});
  EXPECT_EQ(long_files({{"engine/a.cc", Lines(500)}}, allowed), Problems{});
  EXPECT_EQ(long_files({{"engine/a.cc", Lines(501)}}, allowed).size(), 1u) << "grew";
  EXPECT_EQ(long_files({{"engine/a.cc", Lines(400)}}, allowed).size(), 1u) << "is short now";
  EXPECT_EQ(long_files({}, allowed).size(), 1u) << "is gone";
}

std::string text_of(const std::string& path) {
  std::string text;
  for (const std::string& line : lines_of(path)) text += line + "\n";
  return text;
}

TEST(Readme, IsAPageAndItsProgramIsTheOneThatIsBuilt) {
  const std::string readme = text_of("README.md"), program = text_of("examples/train_text.c");
  EXPECT_LE(lines_of("README.md").size(), 150u);
  EXPECT_NE(readme.find("```c\n" + program.substr(program.find("#include")) + "```"), std::string::npos)
      << "README.md must show examples/train_text.c as it stands";
}

}  // namespace text_rules_test
}  // namespace hawser::rules
