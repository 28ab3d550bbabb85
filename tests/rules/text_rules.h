// Habits of the code that a machine can check in the text of a tree. A rule returns one line for each thing
// that breaks it, which says where and what to do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/rules/source_tree.h"

namespace hawser::rules {

using Tree = std::vector<SourceFile>;
using Problems = std::vector<std::string>;
/// What is too long today, with the lines that it may not pass. Such a list only shrinks.
using Exceptions = std::map<std::string, size_t>;

/// Lines "NAME LINES"; # starts a comment.
Exceptions exceptions(const std::vector<std::string>& lines);

Problems long_files(const Tree& tree, const Exceptions& allowed);      // by path
Problems long_functions(const Tree& tree, const Exceptions& allowed);  // by path:name
Problems missing_opening_comments(const Tree& tree);
/// Comments that end beyond column 110. The formatter breaks code, but not comments, because some are tables.
Problems long_comments(const Tree& tree);
Problems conditions(const Tree& tree);
Problems empty_names(const Tree& tree);
/// The library prints, exits, reads the environment or installs a signal handler.
Problems side_effects_of_the_library(const Tree& tree);
/// bindings/cli/output.h: what is written beside it can be lost unnoticed.
Problems prints_of_the_command(const Tree& tree);
/// engine/base/json.h says why.
Problems plain_json(const Tree& tree);
/// Code that parses JSON without the bound of engine/base/json.h, or of the command's or the example's
/// parser.
Problems unbounded_json(const Tree& tree);
/// Lines of the engine that read or test a degree of the mesh, a schedule or where activations go, outside of
/// parallel, config and mesh: engine/parallel/compose.h has them all. By path.
Problems strategies_by_name(const Tree& tree, const Exceptions& allowed);
/// Kernels of kernels/include/table.h without a row in tests/harness/op_cases_*.cc.
Problems kernels_without_cases(const Tree& tree);

}  // namespace hawser::rules
