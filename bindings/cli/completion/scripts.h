// Writes what is made from the tree of commands: completion scripts for three shells, and manual pages.
#pragma once

#include <map>
#include <string>

#include "bindings/cli/completion/command_tree.h"

namespace hawser::cli {

std::string bash_script(const Command& root);
std::string zsh_script(const Command& root);
std::string fish_script(const Command& root);

/// Returns the manual pages by file name: hawser.1 about the program, and hawser-COMMAND.1 about each
/// command.
std::map<std::string, std::string> manual_pages(const Command& root, const std::string& version);

/// Joins the words with spaces.
std::string joined(const std::vector<std::string>& words);

}  // namespace hawser::cli
