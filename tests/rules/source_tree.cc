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
constexpr std::array kTextFolders = {"capi",  "engine",    "kernels", "bindings", "examples",
                                     "tests", "packaging", ".ci",     ".github"};
constexpr std::array kTextEndings = {"",     ".h",   ".hpp", ".c",    ".cc",     ".cu",   ".py",   ".sh",
                                     ".in",  ".fbs", ".rs",  ".md",   ".java",   ".xml",  ".toml", ".yaml",
                                     ".yml", ".txt", ".1",   ".json", ".sbatch", ".cmake"};

std::vector<std::string> read_lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Returns the files of the chosen endings below `folders` of the root, and those that are named themselves.
template <typename Folders, typename Endings>
std::vector<SourceFile> read_tree(const Folders& folders, const Endings& endings) {
  const fs::path root = HAWSER_SOURCE_ROOT;
  std::vector<SourceFile> files;
  const auto add = [&](const fs::path& path) {
    const bool chosen = std::find(endings.begin(), endings.end(), path.extension()) != endings.end();
    if (chosen && fs::is_regular_file(path)) files.push_back({fs::relative(path, root), read_lines(path)});
  };
  for (const char* folder : folders) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) add(entry.path());
  }
  for (const auto& entry : fs::directory_iterator(root)) add(entry.path());
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace

const std::vector<SourceFile>& source_tree() {
  static const std::vector<SourceFile> files = read_tree(kFolders, kEndings);
  return files;
}

const std::vector<SourceFile>& text_tree() {
  static const std::vector<SourceFile> files = [] {
    std::vector<SourceFile> all = read_tree(kTextFolders, kTextEndings);
    std::erase_if(all, [](const SourceFile& file) { return is_below(file.path, "tests/rules"); });
    return all;
  }();
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
