// The source tree as the rules see it: each file's path below the root, and its lines.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hawser::rules {

struct SourceFile {
  std::string path;                ///< below the root, such as "engine/nn/block.cc"
  std::vector<std::string> lines;  ///< without line ends
};

/// All sources (C, C++, Python, shell, FlatBuffers schema) of the folders that hold code, in order of path.
const std::vector<SourceFile>& source_tree();

/// The lines of one file below the root; empty if there is no such file.
std::vector<std::string> lines_of(const std::string& path);

/// True for "engine/nn/block.cc" and the folder "engine/nn".
bool is_below(std::string_view path, std::string_view folder);

/// C, C++ or CUDA.
bool is_c_family(const std::string& path);

/// "path:line: text", for a failure message. `index` counts from 0.
std::string place(const SourceFile& file, size_t index);

}  // namespace hawser::rules
