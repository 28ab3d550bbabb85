// The completion script for fish: one line for each option, which holds where the words before it name its
// command.
#include <sstream>

#include "bindings/cli/completion/scripts.h"

namespace hawser::cli {
namespace {

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out + "'";
}

constexpr const char* kPathFunction = R"FISH(    end
  end
  echo $path
end

complete -c hawser -f
)FISH";

void write_candidates(std::ostringstream& out, const Candidates& candidates) {
  out << (candidates.files ? " -F" : " -f");
  if (!candidates.words.empty()) out << " -a " << fish_quoted(joined(candidates.words));
}

void write_command(std::ostringstream& out, const Command& command) {
  const std::string where =
      "complete -c hawser -n " + fish_quoted("test (__hawser_path) = \"" + command.path + "\"");
  for (const Command& sub : command.commands)
    out << where << " -a " << sub.name << " -d " << fish_quoted(sub.description) << "\n";
  for (const Parameter& option : command.options) {
    out << where;
    for (const std::string& name : option.names)
      out << (name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1));
    out << " -d " << fish_quoted(option.description) << (option.is_flag() ? "" : " -r");
    if (!option.is_flag()) write_candidates(out, option.candidates);
    out << "\n";
  }
  Candidates any;  // an argument's place follows from no condition that fish has, so each offers them all
  for (const Parameter& argument : command.arguments) {
    any.files = any.files || argument.candidates.files;
    any.words.insert(any.words.end(), argument.candidates.words.begin(), argument.candidates.words.end());
  }
  if (!(any == Candidates{})) {
    out << where;
    write_candidates(out, any);
    out << "\n";
  }
}

}  // namespace

std::string fish_script(const Command& root) {
  std::ostringstream out;
  out << "# Completion of hawser for fish: hawser completion fish | source\n\n"
      << "# Prints the command that the words before the cursor name, such as \"hawser tokenizer train\".\n"
      << "function __hawser_path\n  set -l path hawser\n  for word in (commandline -opc)[2..-1]\n"
      << "    switch \"$path $word\"\n      case";
  for (const Command* command : all_commands(root)) {
    if (command != &root) out << " " << fish_quoted(command->path);
  }
  out << "\n        set path \"$path $word\"\n" << kPathFunction;
  for (const Command* command : all_commands(root)) write_command(out, *command);
  return out.str();
}

}  // namespace hawser::cli
