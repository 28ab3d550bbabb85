// Objects that are compiled for one CPU level must share nothing with those of another: a weak symbol (an
// inline function, a template) would let the linker keep the AVX-512 copy for everyone, and a static
// initialiser would run before the level is chosen. The test runs nm and objdump on every such object of this
// build.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

namespace hawser::rules {
namespace isa_objects_test {

namespace fs = std::filesystem;

std::vector<std::string> output_lines(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::vector<std::string> lines;
  std::array<char, 4096> line{};
  while (pipe && fgets(line.data(), line.size(), pipe.get()) != nullptr) lines.emplace_back(line.data());
  return lines;
}

std::vector<fs::path> level_objects() {
  const std::regex level_folder(R"(.*/hawser_(kernels|digest)_\w+\.dir/.*\.o$)");
  std::vector<fs::path> objects;
  for (const char* part : {"kernels", "engine/checkpoint"}) {
    const fs::path folder = fs::path(HAWSER_BUILD_ROOT) / part;
    if (!fs::exists(folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (std::regex_match(entry.path().string(), level_folder)) objects.push_back(entry.path());
    }
  }
  return objects;
}

TEST(IsaObjects, HaveNoWeakSymbols) {
  const std::vector<fs::path> objects = level_objects();
  ASSERT_FALSE(objects.empty()) << "no object of a CPU level below " << HAWSER_BUILD_ROOT;
  const std::regex symbol(R"(^[0-9a-fA-F ]{16} ([A-Za-z]) )");  // address, kind, name
  for (const fs::path& object : objects) {
    const std::vector<std::string> lines = output_lines("nm -C '" + object.string() + "'");
    EXPECT_FALSE(lines.empty()) << object << ": nm says nothing";
    for (const std::string& line : lines) {
      std::smatch match;
      if (!std::regex_search(line, match, symbol)) continue;
      EXPECT_EQ(std::string("WwVvu").find(match[1].str()), std::string::npos)
          << object << ": weak symbol " << line;
    }
  }
}

TEST(IsaObjects, HaveNoStaticInitialisers) {
  for (const fs::path& object : level_objects()) {
    for (const std::string& line : output_lines("objdump -h '" + object.string() + "'")) {
      EXPECT_EQ(line.find(".init_array"), std::string::npos) << object << ": " << line;
      EXPECT_EQ(line.find(".ctors"), std::string::npos) << object << ": " << line;
    }
  }
}

}  // namespace isa_objects_test
}  // namespace hawser::rules
