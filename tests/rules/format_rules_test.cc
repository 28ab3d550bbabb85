// Tests that clang-format, with /.clang-format, changes no file. Its output depends on its version, so this
// test is skipped unless version 14 of Debian bookworm is installed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/rules/source_tree.h"

namespace hawser::rules {
namespace format_rules_test {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code;
  std::string output;
};

Outcome run(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
  return {WEXITSTATUS(pclose(pipe)), output};
}

class Formatting : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"clang-format-14", "clang-format"}) {
      if (run(std::string(name) + " --version").output.find("version 14.") != std::string::npos)
        program_ = name;
    }
    if (program_.empty()) GTEST_SKIP() << "clang-format 14 is not installed";
  }

  /// Returns clang-format's result for files below `root`, which contains a .clang-format.
  Outcome check(const fs::path& root, const std::vector<std::string>& paths) const {
    std::string command = "cd '" + root.string() + "' && " + program_ + " --style=file --dry-run --Werror";
    for (const std::string& path : paths) command += " '" + path + "'";
    return run(command);
  }

  std::string program_;
};

TEST_F(Formatting, IsClangFormats) {
  std::vector<std::string> paths;
  for (const SourceFile& file : source_tree()) {
    if (is_c_family(file.path)) paths.push_back(file.path);
  }
  const Outcome outcome = check(HAWSER_SOURCE_ROOT, paths);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST_F(Formatting, OfABadFileIsFoundAndATableInACommentIsKept) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("hawser_formatting_" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::copy_file(fs::path(HAWSER_SOURCE_ROOT) / ".clang-format", folder / ".clang-format");
  std::ofstream(folder / "bad.cc") << "int  f( ) {return 1;}\n";
  std::ofstream(folder / "table.h") << "//   kLoadMicroBatch    |   batch      " << std::string(120, '-')
                                    << "\n"
                                    << "//   kForward           |   x, batch   the embedding\n"
                                    << "int f();\n";
  EXPECT_NE(check(folder, {"bad.cc"}).exit_code, 0);
  const Outcome table = check(folder, {"table.h"});
  EXPECT_EQ(table.exit_code, 0) << table.output;
  fs::remove_all(folder);
}

}  // namespace format_rules_test
}  // namespace hawser::rules
