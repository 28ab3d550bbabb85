// Habits of the code that a machine can check line by line: variation is a file and not an #if, names say
// what a file is about, files stay short, the library neither prints nor exits, every kernel has a row in the
// op-case table.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/rules/source_tree.h"

namespace hawser::rules {
namespace {

constexpr size_t kLongestFile = 400;

/// Where an #if may stand: the export macro of the public header, and the vector types of a CPU level.
bool may_have_conditions(const std::string& path) {
  return path == "capi/include/hawser.h" || is_below(path, "kernels/cpu/simd");
}

/// `#ifndef X` right before `#define X`.
bool is_include_guard(const SourceFile& file, size_t index) {
  static const std::regex guard(R"(^#ifndef (\w+)\s*$)");
  std::smatch match;
  return std::regex_match(file.lines[index], match, guard) && index + 1 < file.lines.size() &&
         file.lines[index + 1] == "#define " + match[1].str();
}

bool is_c_family(const std::string& path) {
  static const std::set<std::string> endings = {".h", ".c", ".cc", ".cu"};
  return endings.contains(std::filesystem::path(path).extension());
}

TEST(TextRules, VariationIsAFileNotAnIf) {
  const std::regex condition(R"(^\s*#\s*(if|ifdef|ifndef|elif|else)\b.*)");
  for (const SourceFile& file : source_tree()) {
    if (!is_c_family(file.path) || may_have_conditions(file.path)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (!std::regex_match(file.lines[i], condition) || is_include_guard(file, i)) continue;
      ADD_FAILURE() << place(file, i) << "\n  make it a file of its own that the build chooses";
    }
  }
}

TEST(TextRules, NamesSayWhatAFileIsAbout) {
  static const std::set<std::string> empty_names = {"utils",   "util",   "common", "ops",
                                                    "helpers", "helper", "misc"};
  for (const SourceFile& file : source_tree()) {
    for (const auto& part : std::filesystem::path(file.path)) {
      EXPECT_FALSE(empty_names.contains(part.stem())) << file.path << " is named for nothing";
    }
  }
}

/// tests/rules/long_files.txt: "path lines" for each file that is longer than the limit, and may only shrink.
std::map<std::string, size_t> long_files() {
  std::map<std::string, size_t> allowed;
  for (const std::string& line : lines_of("tests/rules/long_files.txt")) {
    if (line.empty() || line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string path;
    size_t lines = 0;
    fields >> path >> lines;
    allowed[path] = lines;
  }
  return allowed;
}

TEST(TextRules, FilesStayShort) {
  std::map<std::string, size_t> allowed = long_files();
  for (const SourceFile& file : source_tree()) {
    if (file.path == "capi/include/hawser.h") continue;  // the whole public API is one header
    const auto entry = allowed.find(file.path);
    if (entry == allowed.end()) {
      EXPECT_LE(file.lines.size(), kLongestFile) << file.path << ": split it by idea";
      continue;
    }
    EXPECT_LE(file.lines.size(), entry->second)
        << file.path << " is on the list of long files and may only shrink";
    EXPECT_GT(file.lines.size(), kLongestFile) << file.path << " is short now: take it off long_files.txt";
    allowed.erase(entry);
  }
  for (const auto& [path, lines] : allowed) ADD_FAILURE() << path << " is gone: take it off long_files.txt";
}

TEST(TextRules, TheLibraryNeitherPrintsNorExitsNorReadsTheEnvironment) {
  // abort() without arguments is the C library's; RankComm::abort takes some.
  const std::regex forbidden(
      R"((^|[^\w:.>])(std::)?(printf|fprintf|puts|fputs|getenv|secure_getenv|exit|_exit|quick_exit|signal|sigaction)\s*\(|(^|[^\w:.>])(std::)?abort\s*\(\s*\)|std::(cout|cerr|clog)\b)");
  for (const SourceFile& file : source_tree()) {
    const bool library =
        is_below(file.path, "engine") || is_below(file.path, "kernels") || is_below(file.path, "capi/src");
    if (!library || !is_c_family(file.path)) continue;
    if (file.path == "capi/src/comm_env.cc") continue;  // reads it for the one function that says so
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const std::string code = file.lines[i].substr(0, file.lines[i].find("//"));
      EXPECT_FALSE(std::regex_search(code, forbidden)) << place(file, i);
    }
  }
}

/// bindings/cli/output.h: what is written beside it can be lost unnoticed.
TEST(TextRules, TheCommandPrintsInOnePlace) {
  const std::regex forbidden(
      R"((^|[^\w:.>])(std::)?(printf|puts|putchar|vprintf)\s*\(|\bstdout\b|std::cout\b)");
  for (const SourceFile& file : source_tree()) {
    if (!is_below(file.path, "bindings/cli") || !is_c_family(file.path)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::string code = file.lines[i].substr(0, file.lines[i].find("//"));
      code = std::regex_replace(code, std::regex(R"("(\\.|[^"\\])*")"), "\"\"");
      EXPECT_FALSE(std::regex_search(code, forbidden)) << place(file, i) << "\n  use output()";
    }
  }
}

/// engine/base/json.h says why.
TEST(TextRules, JsonIsTheKindThatSurvivesAFullHeap) {
  const std::regex plain(R"(nlohmann/json(_fwd)?\.hpp|nlohmann::(ordered_)?json\b)");
  for (const SourceFile& file : source_tree()) {
    const bool library = is_below(file.path, "engine") || is_below(file.path, "capi/src");
    if (!library || !is_c_family(file.path) || file.path == "engine/base/json.h") continue;
    for (size_t i = 0; i < file.lines.size(); ++i)
      EXPECT_FALSE(std::regex_search(file.lines[i], plain))
          << place(file, i) << "\n  use Json or OrderedJson of engine/base/json.h";
  }
}

TEST(TextRules, EveryKernelHasARowInTheOpCaseTable) {
  std::string rows;  // tests/harness/op_cases_<op>.cc; op_cases.cc itself lists the names
  for (const SourceFile& file : source_tree()) {
    if (!file.path.starts_with("tests/harness/op_cases_")) continue;
    for (const std::string& line : file.lines) rows += line + "\n";
  }
  const std::regex entry(R"(^\s*void \(\*(?!prepare_)(\w+)\)\(.*)");  // what prepares computes nothing
  int kernels = 0;
  for (const std::string& line : lines_of("kernels/include/table.h")) {
    std::smatch match;
    if (!std::regex_match(line, match, entry)) continue;
    ++kernels;
    EXPECT_NE(rows.find("\"" + match[1].str() + "\""), std::string::npos)
        << match[1] << " has no row in tests/harness/op_cases_*.cc";
  }
  EXPECT_GT(kernels, 0) << "no kernel found in kernels/include/table.h";
}

std::string text_of(const std::string& path) {
  std::string text;
  for (const std::string& line : lines_of(path)) text += line + "\n";
  return text;
}

TEST(TextRules, TheReadmeIsAPageAndItsProgramIsTheOneThatIsBuilt) {
  const std::string readme = text_of("README.md"), program = text_of("examples/train_text.c");
  EXPECT_LE(lines_of("README.md").size(), 150u);
  EXPECT_NE(readme.find("```c\n" + program.substr(program.find("#include")) + "```"), std::string::npos)
      << "README.md must show examples/train_text.c as it stands";
}

}  // namespace
}  // namespace hawser::rules
