// Tests dependencies and symbols of the library files: the plugin exports one function and needs only the C++
// library; the CPU library needs nothing of CUDA.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>

namespace hawser::testing {
namespace library_file_test {

std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> piece;
  while (std::fgets(piece.data(), piece.size(), pipe) != nullptr) text += piece.data();
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}

/// Returns the libraries that the loader loads with it.
std::set<std::string> needed(const std::string& library) {
  std::set<std::string> names;
  std::istringstream lines(output_of("readelf -dW " + library));
  for (std::string line; std::getline(lines, line);) {
    const size_t open = line.find('[');
    if (line.find("(NEEDED)") != std::string::npos)
      names.insert(line.substr(open + 1, line.find(']') - open - 1));
  }
  EXPECT_FALSE(names.empty()) << library;
  return names;
}

/// Returns the names in the dynamic symbol table, defined or undefined.
std::set<std::string> symbols(const std::string& library, const std::string& which) {
  std::set<std::string> names;
  std::istringstream lines(output_of("nm -D --format=posix " + which + " " + library));
  for (std::string line; std::getline(lines, line);) names.insert(line.substr(0, line.find_first_of(" @")));
  return names;
}

TEST(LibraryFiles, ThePluginShowsOneFunction) {
  EXPECT_EQ(symbols(HAWSER_PLUGIN_FILE, "--defined-only"), std::set<std::string>{"hawser_device_plugin"});
}

TEST(LibraryFiles, ThePluginNeedsNoLibraryOfNvidia) {
  const std::set<std::string> known = {"libstdc++.so.6", "libgcc_s.so.1",        "libm.so.6",
                                       "libc.so.6",      "libpthread.so.0",      "libdl.so.2",
                                       "librt.so.1",     "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"};
  for (const std::string& name : needed(HAWSER_PLUGIN_FILE)) EXPECT_EQ(known.count(name), 1u) << name;
}

TEST(LibraryFiles, TheCpuLibraryKnowsNothingOfCuda) {
  const auto of_cuda = [](std::string name) {
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char* word : {"cuda", "cublas", "cudnn", "nccl", "nvrtc"})
      if (name.find(word) != std::string::npos) return true;
    return false;
  };
  for (const std::string& name : needed(HAWSER_LIBRARY_FILE)) EXPECT_FALSE(of_cuda(name)) << name;
  for (const std::string& name : symbols(HAWSER_LIBRARY_FILE, "--undefined-only"))
    EXPECT_FALSE(of_cuda(name)) << name;
}

}  // namespace library_file_test
}  // namespace hawser::testing
