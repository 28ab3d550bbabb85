// Row test: tests that every row of bad input gives the expected status and message.
#include <gtest/gtest.h>

#include "tests/bad_input/case.h"

namespace hawser::bad_input {
namespace rows_test {

void check(const Area& area) {
  EXPECT_FALSE(area.cases.empty());
  for (const Case& row : area.cases) EXPECT_EQ(difference(row, outcome_of(area, row)), "");
}

TEST(BadInput, Configs) { check(config_area()); }
TEST(BadInput, ConfigsThatContradictThemselves) { check(rules_area()); }
TEST(BadInput, RecomputeAndOffload) { check(memory_area()); }
TEST(BadInput, BinaryConfigs) { check(binary_config_area()); }
TEST(BadInput, DataFiles) { check(data_area()); }
TEST(BadInput, TextAndTokenizers) {
  if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "there is no text module";
  check(text_area());
}
TEST(BadInput, MegatronIndexes) { check(megatron_area()); }
TEST(BadInput, Adapters) { check(adapter_area()); }
TEST(BadInput, Objectives) { check(objective_area()); }
TEST(BadInput, Teachers) { check(teacher_area()); }
TEST(BadInput, PairsInFiles) {
  if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "there is no text module";
  check(pair_area());
}
TEST(BadInput, Checkpoints) { check(checkpoint_area()); }
TEST(BadInput, Safetensors) { check(safetensors_area()); }
TEST(BadInput, HuggingFaceFolders) { check(hugging_face_area()); }
TEST(BadInput, Calls) { check(call_area()); }

}  // namespace rows_test
}  // namespace hawser::bad_input
