// TextRules: rules that a program can check in the text of a tree. A rule returns one line for each
// violation, which states the place and what to do.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/rules/source_tree.h"

namespace hawser::rules {

using Tree = std::vector<SourceFile>;
using Problems = std::vector<std::string>;
/// The files or functions that are too long today, each with its limit in lines. Nobody may add to such a
/// list.
using Exceptions = std::map<std::string, size_t>;

/// Parses lines "NAME LINES"; # starts a comment.
Exceptions exceptions(const std::vector<std::string>& lines);

Problems long_files(const Tree& tree, const Exceptions& allowed);      // by path
Problems long_functions(const Tree& tree, const Exceptions& allowed);  // by path:name
Problems missing_opening_comments(const Tree& tree);
/// Finds comments that end beyond column 110. The formatter does not break comments, because some are tables.
Problems long_comments(const Tree& tree);
Problems conditions(const Tree& tree);
Problems empty_names(const Tree& tree);
/// Finds code of the library that prints, exits, reads the environment or installs a signal handler.
Problems side_effects_of_the_library(const Tree& tree);
/// Finds output of the command that bypasses bindings/cli/output.h, so that a failed write would go
/// unnoticed.
Problems prints_of_the_command(const Tree& tree);
/// Finds uses of plain nlohmann::json. engine/base/json.h gives the reason for this rule.
Problems plain_json(const Tree& tree);
/// Finds code that parses JSON without the bound of engine/base/json.h, or of the command's or the example's
/// parser.
Problems unbounded_json(const Tree& tree);
/// Finds lines of the engine, outside of parallel, config and mesh, that read or test a degree of the mesh, a
/// schedule or where activations go: engine/parallel/compose.h has them all. Counts them by path.
Problems strategies_by_name(const Tree& tree, const Exceptions& allowed);
/// Finds commands and dependencies that would install another project of the name hawser, or ask a public
/// archive, which does not have Hawser yet. The packages for pip and cargo are called hawser-train.
Problems foreign_names(const Tree& tree);
/// Finds kernels of kernels/include/table.h without a row in tests/harness/op_cases_*.cc.
Problems kernels_without_cases(const Tree& tree);

}  // namespace hawser::rules
