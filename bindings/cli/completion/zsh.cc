// The completion script for zsh: a function for each command, whose arguments to _arguments describe its
// options, and a function for each set of candidates.
#include <algorithm>
#include <sstream>

#include "bindings/cli/completion/scripts.h"
#include "bindings/cli/shell_quote.h"

namespace hawser::cli {
namespace {

std::string function_name(const std::string& path) {
  std::string name = "_" + path;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

/// Escapes what ends or divides a description.
std::string escaped(const std::string& text, const std::string& special) {
  std::string out;
  for (const char c : text) out += (special.find(c) != std::string::npos ? "\\" : "") + std::string(1, c);
  return out;
}

/// Writes each set of candidates once, as a function, and knows its name.
class CandidateFunctions {
 public:
  /// Returns the action of _arguments that offers the candidates.
  std::string action(const Candidates& candidates) {
    if (candidates.words.empty()) return candidates.files ? "_files" : " ";
    const auto known = std::find(sets_.begin(), sets_.end(), candidates);
    const size_t index = static_cast<size_t>(known - sets_.begin());
    if (known == sets_.end()) sets_.push_back(candidates);
    return "_hawser_candidates_" + std::to_string(index);
  }

  std::string text() const {
    std::ostringstream out;
    for (size_t i = 0; i < sets_.size(); ++i) {
      const bool opens = sets_[i].words[0].ends_with('=');
      out << "_hawser_candidates_" << i << "() {\n  compadd" << (opens ? " -S ''" : "") << " --";
      for (const std::string& word : sets_[i].words) out << " " << single_quoted(word);
      out << "\n" << (sets_[i].files ? "  _files\n" : "") << "}\n\n";
    }
    return out.str();
  }

 private:
  std::vector<Candidates> sets_;
};

void write_options(std::ostringstream& out, const Command& command, CandidateFunctions* functions) {
  for (const Parameter& option : command.options) {
    for (const std::string& name : option.names) {
      const bool is_long = name.starts_with("--");
      std::string spec = (option.repeats ? "*" : "") + name + (option.is_flag() || !is_long ? "" : "=");
      spec += "[" + escaped(option.description, "\\[]:") + "]";
      if (!option.is_flag())
        spec += ":" + escaped(option.metavar, "\\:") + ":" + functions->action(option.candidates);
      out << " \\\n    " << single_quoted(spec);
    }
  }
}

void write_command(std::ostringstream& out, const Command& command, CandidateFunctions* functions) {
  out << function_name(command.path) << "() {\n";
  if (!command.commands.empty()) out << "  local context state line\n  typeset -A opt_args\n";
  out << "  _arguments -S" << (command.commands.empty() ? "" : " -C");
  write_options(out, command, functions);
  if (!command.commands.empty()) {
    out << " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n    command)\n"
        << "      local -a commands=(\n";
    for (const Command& sub : command.commands)
      out << "        " << single_quoted(sub.name + ":" + escaped(sub.description, "\\:")) << "\n";
    out << "      )\n      _describe command commands ;;\n    argument)\n      case $line[1] in\n";
    for (const Command& sub : command.commands)
      out << "        " << sub.name << ") " << function_name(sub.path) << " ;;\n";
    out << "      esac ;;\n  esac\n}\n\n";
    return;
  }
  for (const Parameter& argument : command.arguments) {
    const std::string start = argument.repeats ? "*:" : argument.required ? ":" : "::";
    out << " \\\n    "
        << single_quoted(start + escaped(argument.argument, "\\:") + ":" +
                         functions->action(argument.candidates));
  }
  out << "\n}\n\n";
}

}  // namespace

std::string zsh_script(const Command& root) {
  std::ostringstream commands;
  CandidateFunctions functions;
  for (const Command* command : all_commands(root)) write_command(commands, *command, &functions);
  return "#compdef hawser\n# Completion of hawser for zsh: source <(hawser completion zsh)\n\n" +
         functions.text() + commands.str() +
         "# As a file of fpath, this script is the function itself; sourced, it names the function.\n"
         "if [ \"$funcstack[1]\" = _hawser ]; then _hawser \"$@\"; else compdef _hawser hawser; fi\n";
}

}  // namespace hawser::cli
