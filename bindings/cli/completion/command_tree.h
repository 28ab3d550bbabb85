// CommandTree: the commands and options as the parser (CLI11) has them, in the form in which completions and
// manual pages need them. All of these are made from the tree, so none can describe an option that does not
// exist.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hawser::cli {

/// What a shell offers for a value.
struct Candidates {
  bool files = false;              ///< names of files and folders
  std::vector<std::string> words;  ///< a word that ends with '=' is completed without a space after it

  bool operator==(const Candidates&) const = default;
};

struct Parameter {
  std::vector<std::string> names;  ///< such as {"-o", "--output"}; empty for an argument
  std::string argument;            ///< the name of an argument, such as "config"
  std::string metavar;             ///< "FILE"; "" for a flag
  std::string description, group, default_text;
  bool required = false;
  bool repeats = false;  ///< may be given more than once
  Candidates candidates;

  bool is_flag() const { return metavar.empty(); }
};

struct Command {
  std::string path;  ///< "hawser tokenizer train"
  std::string name, description, footer;
  std::vector<Parameter> options, arguments;
  std::vector<Command> commands;
};

/// Words that only the library knows. Each takes the place of a metavar, or of one of its alternatives.
struct KnownWords {
  std::vector<std::string> presets;   ///< for PRESET and CONFIG
  std::vector<std::string> pointers;  ///< for /POINTER, and with '=' for /POINTER=VALUE
};

/// Returns the tree of the parser `app`. Hidden commands and options are left out. A command that runs
/// another one (launch) has that command, `prefixed`, below it.
Command command_tree(const CLI::App& app, const KnownWords& words, const std::string& prefixed);

/// Returns all commands of the tree, each before those below it.
std::vector<const Command*> all_commands(const Command& root);

}  // namespace hawser::cli
