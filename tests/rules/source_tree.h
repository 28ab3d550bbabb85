// SourceTree: the files that the rules check, each with its path below the root and its lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hawser::rules {

struct SourceFile {
  std::string path;                ///< below the root, such as "engine/nn/block.cc"
  std::vector<std::string> lines;  ///< without line ends
};

/// Returns all sources (C, C++, Python, shell, FlatBuffers schema) of the folders with code, sorted by path.
const std::vector<SourceFile>& source_tree();

/// Returns all files with text for people or for other programs: sources, pages, scripts and recipes.
/// Leaves out this folder, whose tests contain what the rules find.
const std::vector<SourceFile>& text_tree();

/// Returns the lines of one file below the root; empty if the file does not exist.
std::vector<std::string> lines_of(const std::string& path);

/// True if `path` is below `folder`, such as "engine/nn/block.cc" below "engine/nn".
bool is_below(std::string_view path, std::string_view folder);

/// True for a C, C++ or CUDA file.
bool is_c_family(const std::string& path);

/// Returns "path:line: text" for a failure message. `index` counts from 0.
std::string place(const SourceFile& file, size_t index);

}  // namespace hawser::rules
