// Tests what open_module reports of a library that cannot be loaded here.
#include "engine/base/open_module.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace hawser {
namespace open_module_test {

class OpenModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "hawser-module-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// Writes a file that begins with the header of this program, except that it is for another machine.
  void write_library(uint16_t machine) {
    std::array<char, sizeof(Elf64_Ehdr)> header{};
    std::ifstream("/proc/self/exe", std::ios::binary).read(header.data(), header.size());
    std::memcpy(&own_machine_, header.data() + offsetof(Elf64_Ehdr, e_machine), sizeof(own_machine_));
    std::memcpy(header.data() + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof(machine));
    std::ofstream(folder_ + "/libmodule.so", std::ios::binary).write(header.data(), header.size());
  }

  std::string folder_;
  uint16_t own_machine_ = 0;
};

TEST_F(OpenModuleTest, NamesTheArchitectureOfALibraryForAnotherProcessor) {
  write_library(EM_S390);
  const OpenedModule module = open_module(folder_, "libmodule.so", "entry");
  EXPECT_EQ(module.entry, nullptr);
  const std::string own = own_machine_ == EM_X86_64 ? "x86-64" : "aarch64";
  EXPECT_EQ(module.reason, "it is for ELF machine 22 processors, but this process is " + own +
                               "; install the file that was built for " + own);
  const bool on_arm = own_machine_ == EM_AARCH64;
  write_library(on_arm ? EM_X86_64 : EM_AARCH64);
  const std::string other = on_arm ? "x86-64" : "aarch64";
  EXPECT_TRUE(open_module(folder_, "libmodule.so", "entry").reason.starts_with("it is for " + other))
      << other;
}

TEST_F(OpenModuleTest, KeepsTheWordsOfTheLoaderForOtherReasons) {
  EXPECT_NE(open_module(folder_, "libmodule.so", "entry").reason.find("No such file"), std::string::npos);
  std::ofstream(folder_ + "/libmodule.so") << "no library";
  EXPECT_NE(open_module(folder_, "libmodule.so", "entry").reason.find("too short"), std::string::npos);
}

}  // namespace open_module_test
}  // namespace hawser
