// Functions: finds the functions of a C, C++ or CUDA file without a compiler. The search relies on
// clang-format, which the rules also check: the brace of a body follows a space, the brace of an initializer
// follows a name.
#pragma once

#include <string>
#include <vector>

#include "tests/rules/source_tree.h"

namespace hawser::rules {

struct Function {
  std::string name;  ///< "forward", "Suite.Case" for a test, "lambda" for a lambda in a table
  size_t line = 0;   ///< index of the line with its opening brace
  size_t lines = 0;  ///< number of lines from that line to the line with the closing brace, inclusive
};

/// Returns the outermost functions of a file. A lambda inside a function is part of that function.
std::vector<Function> functions_in(const SourceFile& file);

}  // namespace hawser::rules
