// Implements source_tree.h. The build sets the root of the tree (HAWSER_SOURCE_ROOT).
#include "tests/rules/source_tree.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace hawser::rules {
namespace {

namespace fs = std::filesystem;

constexpr std::array kFolders = {"capi", "engine", "kernels", "bindings", "examples", "tests", "packaging"};
constexpr std::array kEndings = {".h", ".c", ".cc", ".cu", ".py", ".sh", ".fbs", ".in"};

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<SourceFile> read_tree() {
  const fs::path root = HAWSER_SOURCE_ROOT;
  std::vector<SourceFile> files;
  for (const char* folder : kFolders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) continue;
      const bool source =
          std::find(kEndings.begin(), kEndings.end(), entry.path().extension()) != kEndings.end();
      if (source) files.push_back({fs::relative(entry.path(), root), read_lines(entry.path())});
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace

const std::vector<SourceFile>& source_tree() {
  static const std::vector<SourceFile> files = read_tree();
  return files;
}

std::vector<std::string> lines_of(const std::string& path) {
  return read_lines(fs::path(HAWSER_SOURCE_ROOT) / path);
}

bool is_below(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool is_c_family(const std::string& path) {
  constexpr std::array kCFamily = {".h", ".c", ".cc", ".cu"};
  return std::find(kCFamily.begin(), kCFamily.end(), fs::path(path).extension()) != kCFamily.end();
}

std::string place(const SourceFile& file, size_t index) {
  return file.path + ":" + std::to_string(index + 1) + ": " + file.lines[index];
}

}  // namespace hawser::rules
