// The choice among the CPU levels, and the vector operations of each level as its kernels show them.
#include "kernels/include/levels.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/base/error.h"
#include "tests/harness/kernel_levels.h"

namespace hawser::kernels {
namespace levels_test {

TEST(CpuLevels, NamesAndNumbersGoBothWays) {
  for (int32_t i = 0; i <= 4; ++i) {
    EXPECT_EQ(i, cpu_level_from_name(cpu_level_name(static_cast<CpuLevel>(i))));
  }
  EXPECT_EQ(3, cpu_level_from_name("x86-64-v4"));
  EXPECT_EQ(-1, cpu_level_from_name("x86-64-v5"));
  EXPECT_EQ(-1, cpu_level_from_name(""));
  EXPECT_STREQ("unknown", cpu_level_name(static_cast<CpuLevel>(9)));
}

TEST(CpuLevels, EveryLevelUpToTheBestHasATableNamedAsItOrALowerOne) {
  const auto best = static_cast<int32_t>(best_cpu_level());
  EXPECT_STREQ(cpu_level_name(best_cpu_level()), cpu_kernels(best_cpu_level()).name);
  for (int32_t i = 0; i <= best; ++i) {
    const int32_t got = cpu_level_from_name(cpu_kernels(static_cast<CpuLevel>(i)).name);
    EXPECT_GE(got, 0);
    EXPECT_LE(got, i);
  }
  EXPECT_STREQ("generic", cpu_kernels(CpuLevel::kGeneric).name);
}

TEST(CpuLevels, ALevelAboveTheBestIsRefusedNamingBoth) {
  const auto above = static_cast<CpuLevel>(static_cast<int32_t>(best_cpu_level()) + 1);
  for (const CpuLevel level : {above, static_cast<CpuLevel>(-1)}) {
    try {
      cpu_kernels(level);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(Code::kDeviceUnavailable, error.code());
      EXPECT_NE(std::string::npos, error.message().find(cpu_level_name(best_cpu_level()))) << error.message();
      EXPECT_NE(std::string::npos, error.message().find(cpu_level_name(level))) << error.message();
    }
  }
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
