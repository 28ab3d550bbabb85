#include "bindings/cli/completion/command_tree.h"

#include <algorithm>
#include <sstream>

namespace hawser::cli {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

/// Divides a type such as "TEXT:{cut,drop}" or "INT:INT in [1 - 4096]" into its name and the choices of a
/// set. Only checks follow the colon: "HOST:PORT" is a name.
std::string type_and_choices(const std::string& type, std::vector<std::string>* choices) {
  if (const size_t set = type.find(":{"); set != std::string::npos) {
    const size_t end = type.find('}', set);
    *choices = split(type.substr(set + 2, end - set - 2), ',');
    return type.substr(0, set);
  }
  const size_t range = type.find(" in [");
  return range == std::string::npos ? type : type.substr(0, type.find(':'));
}

bool names_path(const std::string& word) {
  return word == "FILE" || word == "DIR" || word == "MODEL" || word == "RUN" || word == "CONFIG";
}

Candidates candidates_for(const std::string& metavar, const KnownWords& known) {
  Candidates candidates;
  const auto add = [&](const std::vector<std::string>& words, const char* end) {
    for (const std::string& word : words) candidates.words.push_back(word + end);
  };
  for (const std::string& word : split(metavar, '|')) {
    if (names_path(word)) candidates.files = true;
    if (word == "PRESET" || word == "CONFIG") add(known.presets, "");
    if (word == "/POINTER") add(known.pointers, "");
    if (word == "/POINTER=VALUE") add(known.pointers, "=");
  }
  return candidates;
}

Parameter parameter_of(const CLI::Option& option, const KnownWords& known) {
  Parameter parameter;
  for (const std::string& name : option.get_snames()) parameter.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) parameter.names.push_back("--" + name);
  if (option.get_positional()) parameter.argument = option.get_name(true);
  parameter.description = option.get_description();
  parameter.group = option.get_group();
  parameter.default_text = option.get_default_str();
  parameter.required = option.get_required();
  parameter.repeats = option.get_expected_max() > 1;
  if (option.get_items_expected_max() == 0) return parameter;
  std::vector<std::string> choices;
  parameter.metavar = type_and_choices(option.get_type_name(), &choices);
  parameter.candidates = candidates_for(parameter.metavar, known);
  if (choices.empty()) return parameter;
  parameter.candidates = {false, choices};
  parameter.metavar.clear();  // "cut|drop" says more than "TEXT"
  for (const std::string& choice : choices)
    parameter.metavar += (parameter.metavar.empty() ? "" : "|") + choice;
  return parameter;
}

Command command_at(const CLI::App& app, const std::string& path, const KnownWords& known,
                   const Command* prefixed) {
  Command command;
  command.path = path;
  command.name = path.substr(path.find_last_of(' ') + 1);
  command.description = app.get_description();
  command.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? command.arguments : command.options).push_back(parameter_of(*option, known));
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_group().empty())
      command.commands.push_back(command_at(*sub, path + " " + sub->get_name(), known, prefixed));
  }
  if (app.get_prefix_command() && prefixed != nullptr) {
    command.commands.push_back(*prefixed);
    command.commands.back().path = path + " " + prefixed->name;
  }
  return command;
}

}  // namespace

Command command_tree(const CLI::App& app, const KnownWords& words, const std::string& prefixed) {
  const std::string& name = app.get_name();
  const Command inner = command_at(*app.get_subcommand(prefixed), name + " " + prefixed, words, nullptr);
  return command_at(app, name, words, &inner);
}

std::vector<const Command*> all_commands(const Command& root) {
  std::vector<const Command*> all = {&root};
  for (const Command& command : root.commands)
    for (const Command* below : all_commands(command)) all.push_back(below);
  return all;
}

}  // namespace hawser::cli
