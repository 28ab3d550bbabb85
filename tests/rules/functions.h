// Finds the functions of a C, C++ or CUDA file without a compiler. It relies on clang-format, which the rules
// also check: a body's brace follows a space, the brace of an initializer follows a name.
#pragma once

#include <string>
#include <vector>

#include "tests/rules/source_tree.h"

namespace hawser::rules {

struct Function {
  std::string name;  ///< "forward", "Suite.Case" of a test, "lambda" of one in a table
  size_t line = 0;   ///< index of the line with its opening brace
  size_t lines = 0;  ///< from that line to the one with the closing brace, both counted
};

/// The outermost functions: a lambda inside a function is part of it.
std::vector<Function> functions_in(const SourceFile& file);

}  // namespace hawser::rules
