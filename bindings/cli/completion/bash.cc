// The completion script for bash. It completes the value of an option, the names of options after a dash, and
// else commands and arguments. The command that a line is about follows from its words, as the parser reads
// them.
#include <sstream>

#include "bindings/cli/completion/scripts.h"
#include "bindings/cli/shell_quote.h"

namespace hawser::cli {
namespace {

constexpr const char* kHead = R"BASH(# Completion of hawser for bash: source <(hawser completion bash)

# Sets `offers` to what the option or argument $2 of the command $1 takes: "" if it is a flag, otherwise "files" or "-",
# and then words.
_hawser_offers() {
  offers=
  case $1 in
)BASH";

constexpr const char* kMiddle = R"BASH(  esac
}

# Sets `options` and `commands` to those of the command $1.
_hawser_names() {
  options= commands=
  case $1 in
)BASH";

constexpr const char* kTail = R"BASH(  esac
}

_hawser() {
  local line=${COMP_LINE:0:COMP_POINT} command=hawser arguments=0 offers= options commands typed word words found
  read -a words <<<"$line" # not COMP_WORDS, which are divided at = and :
  [[ $line == *[[:blank:]] ]] && words+=("")
  typed=${words[-1]}
  for word in "${words[@]:1:${#words[@]}-2}"; do
    _hawser_names "$command"
    if [ -n "$offers" ]; then
      offers=
    elif [[ $word == -*=* ]]; then
      continue
    elif [[ $word == -* ]]; then
      _hawser_offers "$command" "$word"
    elif [[ " $commands " == *" $word "* ]]; then
      command+=" $word" arguments=0
    else
      arguments=$((arguments + 1))
    fi
  done
  _hawser_names "$command"
  COMPREPLY=()
  if [ -z "$offers" ] && [[ $typed == -*=* ]]; then
    _hawser_offers "$command" "${typed%%=*}"
    typed=${typed#*=}
  elif [ -z "$offers" ] && [[ $typed == -* ]]; then
    offers="- $options"
  elif [ -z "$offers" ]; then
    _hawser_offers "$command" $arguments
    offers="${offers:--} $commands"
  fi
  if [[ $offers == files* ]]; then
    compopt -o filenames -o default 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$typed")
  fi
  mapfile -t found < <(compgen -W "${offers#* }" -- "$typed")
  [[ $offers == *' '* ]] && COMPREPLY+=("${found[@]}")
  [[ ${#found[@]} == 1 && ${found[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _hawser hawser
)BASH";

std::string offers_of(const Parameter& parameter) {
  const std::string words = joined(parameter.candidates.words);
  return (parameter.candidates.files ? "files" : "-") + (words.empty() ? "" : " " + words);
}

std::string names_pattern(const Parameter& option) {
  std::string pattern;
  for (const std::string& name : option.names) pattern += (pattern.empty() ? "" : "|") + name;
  return pattern;
}

/// Writes the rows of a case statement for one command. The last argument may repeat.
void write_offers(std::ostringstream& out, const Command& command) {
  out << "    " << single_quoted(command.path) << ")\n      case $2 in\n";
  for (const Parameter& option : command.options) {
    if (!option.is_flag())
      out << "        " << names_pattern(option) << ") offers=" << single_quoted(offers_of(option))
          << " ;;\n";
  }
  for (size_t i = 0; i < command.arguments.size(); ++i) {
    const Parameter& argument = command.arguments[i];
    const std::string pattern = argument.repeats ? "[0-9]*" : std::to_string(i);
    out << "        " << pattern << ") offers=" << single_quoted(offers_of(argument)) << " ;;\n";
  }
  out << "      esac ;;\n";
}

}  // namespace

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string bash_script(const Command& root) {
  std::ostringstream out;
  out << kHead;
  for (const Command* command : all_commands(root)) write_offers(out, *command);
  out << kMiddle;
  for (const Command* command : all_commands(root)) {
    std::vector<std::string> options, commands;
    for (const Parameter& option : command->options)
      options.insert(options.end(), option.names.begin(), option.names.end());
    for (const Command& sub : command->commands) commands.push_back(sub.name);
    out << "    " << single_quoted(command->path) << ") options=" << single_quoted(joined(options))
        << " commands=" << single_quoted(joined(commands)) << " ;;\n";
  }
  out << kTail;
  return out.str();
}

}  // namespace hawser::cli
