// Tests the include direction of the design on every file of the tree.
#include "tests/rules/include_rules.h"

#include <gtest/gtest.h>

#include <regex>

#include "tests/rules/source_tree.h"

namespace hawser::rules {
namespace include_rules_test {

TEST(IncludeRules, KnowUpFromDown) {
  EXPECT_EQ(include_problem("engine/nn/block.cc", "kernels/include/table.h"), "");
  EXPECT_EQ(include_problem("engine/nn/block.cc", "engine/nn/block.h"), "");
  EXPECT_EQ(include_problem("engine/run/trainer.cc", "engine/checkpoint/checkpoint.h"), "");
  EXPECT_EQ(include_problem("kernels/cpu/matmul.cc", "engine/base/stream.h"), "");
  EXPECT_EQ(include_problem("bindings/cli/main.cc", "capi/include/hawser.h"), "");
  EXPECT_NE(include_problem("engine/nn/block.cc", "engine/comm/work.h"), "") << "nn knows no ranks";
  EXPECT_NE(include_problem("engine/nn/block.cc", "engine/parallel/zero.h"), "");
  EXPECT_NE(include_problem("engine/nn/block.cc", "engine/plan/plan.h"), "");
  EXPECT_NE(include_problem("engine/config/tree.cc", "engine/run/trainer.h"), "");
  EXPECT_EQ(include_problem("engine/run/trainer.cc", "engine/save/saves.h"), "");
  EXPECT_NE(include_problem("engine/save/saves.cc", "engine/run/trainer.h"), "");
  EXPECT_NE(include_problem("engine/execute/executor.cc", "engine/ranks/rank.h"), "");
  EXPECT_NE(include_problem("engine/execute/executor.cc", "engine/config/resolved_config.h"), "");
  EXPECT_NE(include_problem("engine/base/error.cc", "kernels/include/table.h"), "");
  EXPECT_NE(include_problem("kernels/cpu/matmul.cc", "engine/device/arena.h"), "");
  EXPECT_NE(include_problem("bindings/cli/main.cc", "engine/base/error.h"), "");
  EXPECT_NE(include_problem("tests/golden/golden_check.cc", "engine/base/error.h"), "");
  EXPECT_NE(include_problem("engine/nn/block.cc", "../base/error.h"), "");
}

TEST(IncludeRules, HoldInEveryFile) {
  const std::regex directive(R"(^\s*#\s*include\s+"([^"]+)\".*)");
  for (const SourceFile& file : source_tree()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      std::smatch match;
      if (!std::regex_match(file.lines[i], match, directive)) continue;
      EXPECT_EQ(include_problem(file.path, match[1].str()), "") << place(file, i);
    }
  }
}

}  // namespace include_rules_test
}  // namespace hawser::rules
