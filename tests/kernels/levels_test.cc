// The choice among the CPU levels, and the vector operations of each level as its kernels show them.
#include "kernels/include/levels.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "engine/base/error.h"
#include "tests/harness/kernel_levels.h"

namespace hawser::kernels {
namespace levels_test {

TEST(CpuLevels, NamesAndNumbersGoBothWays) {
  for (int32_t i = 0; i < kCpuLevels; ++i) {
    EXPECT_EQ(i, cpu_level_from_name(cpu_level_name(static_cast<CpuLevel>(i))));
  }
  EXPECT_EQ(3, cpu_level_from_name("x86-64-v4"));
  EXPECT_EQ(-1, cpu_level_from_name("x86-64-v5"));
  EXPECT_EQ(-1, cpu_level_from_name(""));
  EXPECT_STREQ("unknown", cpu_level_name(static_cast<CpuLevel>(kCpuLevels)));
}

TEST(CpuLevels, EachLevelExceptTheGenericOneIsOfOneArchitecture) {
  EXPECT_STREQ("", cpu_level_architecture(CpuLevel::kGeneric));
  EXPECT_STREQ("x86-64", cpu_level_architecture(CpuLevel::kV2));
  EXPECT_STREQ("x86-64", cpu_level_architecture(CpuLevel::kV4Bf16));
  EXPECT_STREQ("aarch64", cpu_level_architecture(CpuLevel::kNeon));
  EXPECT_STREQ("aarch64", cpu_level_architecture(CpuLevel::kNeonBf16));
  EXPECT_STREQ("", cpu_level_architecture(static_cast<CpuLevel>(kCpuLevels)));
}

TEST(CpuLevels, LevelsOfTwoArchitecturesHaveTheGenericOneInCommon) {
  EXPECT_EQ(CpuLevel::kV3, common_cpu_level(CpuLevel::kV4, CpuLevel::kV3));
  EXPECT_EQ(CpuLevel::kNeon, common_cpu_level(CpuLevel::kNeon, CpuLevel::kNeon));
  EXPECT_EQ(CpuLevel::kNeon, common_cpu_level(CpuLevel::kNeonBf16, CpuLevel::kNeon));
  EXPECT_EQ(CpuLevel::kGeneric, common_cpu_level(CpuLevel::kNeon, CpuLevel::kV4));
  EXPECT_EQ(CpuLevel::kGeneric, common_cpu_level(CpuLevel::kV4Bf16, CpuLevel::kNeonBf16));
  EXPECT_EQ(CpuLevel::kGeneric, common_cpu_level(CpuLevel::kV2, CpuLevel::kNeon));
  EXPECT_EQ(CpuLevel::kGeneric, common_cpu_level(CpuLevel::kGeneric, CpuLevel::kNeon));
}

TEST(CpuLevels, EveryLevelUpToTheBestHasATableNamedAsItOrALowerOne) {
  EXPECT_STREQ(cpu_level_name(best_cpu_level()), cpu_kernels(best_cpu_level()).name);
  EXPECT_TRUE(has_cpu_level(best_cpu_level()));
  EXPECT_TRUE(has_cpu_level(CpuLevel::kGeneric));
  for (int32_t i = 0; i < kCpuLevels; ++i) {
    if (!has_cpu_level(static_cast<CpuLevel>(i))) continue;
    const int32_t got = cpu_level_from_name(cpu_kernels(static_cast<CpuLevel>(i)).name);
    EXPECT_GE(got, 0);
    EXPECT_LE(got, i);
  }
  EXPECT_STREQ("generic", cpu_kernels(CpuLevel::kGeneric).name);
}

/// Levels above the best of this architecture, levels of another one, and numbers of no level.
TEST(CpuLevels, ALevelThatThisMachineLacksIsRefusedNamingItAndTheBest) {
  int32_t foreign = 0;
  for (int32_t i = -1; i <= kCpuLevels; ++i) {
    const auto level = static_cast<CpuLevel>(i);
    if (has_cpu_level(level)) continue;
    const std::string architecture = cpu_level_architecture(level);
    try {
      cpu_kernels(level);
      FAIL() << "no error for " << i;
    } catch (const Error& error) {
      EXPECT_EQ(Code::kDeviceUnavailable, error.code());
      EXPECT_NE(std::string::npos, error.message().find(cpu_level_name(best_cpu_level()))) << error.message();
      EXPECT_NE(std::string::npos, error.message().find(cpu_level_name(level))) << error.message();
      if (architecture.empty() || architecture == cpu_architecture()) continue;
      ++foreign;
      EXPECT_NE(std::string::npos, error.message().find(architecture)) << error.message();
      EXPECT_NE(std::string::npos, error.message().find(cpu_architecture())) << error.message();
    }
  }
  EXPECT_GE(foreign, 1);
}

/// Runs under an emulator, whose processor the build chooses, give its best level.
TEST(CpuLevels, TheBestIsThatOfTheEmulatedProcessor) {
  const char* const best = std::getenv("HAWSER_BEST_LEVEL");
  if (best == nullptr) GTEST_SKIP() << "HAWSER_BEST_LEVEL is not set";
  EXPECT_STREQ(best, cpu_level_name(best_cpu_level()));
}

TEST(CpuLevels, TheProcessorHasANameWithoutBlanksAround) {
  const std::string name = cpu_name();
  ASSERT_FALSE(name.empty());
  EXPECT_NE(' ', name.front());
  EXPECT_NE(' ', name.back());
}

/// The entries that prepare a shape are empty, because CPU kernels prepare nothing.
TEST(CpuLevels, EveryEntryOfEveryTableIsFilled) {
  for (const KernelTable* table : testing::kernel_tables()) {
    EXPECT_FALSE(table->prepare_matmul || table->prepare_attention_forward ||
                 table->prepare_attention_backward);
    KernelTable filled = *table;
    filled.prepare_matmul = filled.matmul;
    filled.prepare_attention_forward = filled.attention_forward;
    filled.prepare_attention_backward = filled.attention_backward;
    void* const* entries = reinterpret_cast<void* const*>(&filled);
    for (size_t i = 0; i < sizeof(KernelTable) / sizeof(void*); ++i) EXPECT_NE(nullptr, entries[i]) << i;
  }
}

}  // namespace levels_test
}  // namespace hawser::kernels
