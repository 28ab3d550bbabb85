// Manual pages, in the macros of man(7).
#include <algorithm>
#include <cctype>
#include <sstream>

#include "bindings/cli/completion/scripts.h"

namespace hawser::cli {
namespace {

/// Returns text that troff prints as it is: a backslash and a dash are requests, and so are a dot and a quote
/// that begin a line.
std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return out;
}

/// Returns the upper-case heading of a group of options.
std::string heading(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return ".SH " + std::string(text.find(' ') == std::string::npos ? text : "\"" + text + "\"") + "\n";
}

std::string page_name(const Command& command) {
  std::string name = command.path;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

void write_parameter(std::ostringstream& out, const Parameter& parameter) {
  out << ".TP\n";
  std::string names;
  for (const std::string& name : parameter.names) names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) names = parameter.argument;
  out << "\\fB" << troff(names) << "\\fR";
  if (!parameter.is_flag()) out << " \\fI" << troff(parameter.metavar) << "\\fR";
  out << "\n" << troff(parameter.description);
  if (!parameter.default_text.empty()) out << " (default: " << troff(parameter.default_text) << ")";
  if (parameter.required) out << " (required)";
  out << "\n";
}

void write_options(std::ostringstream& out, const Command& command) {
  std::vector<std::string> groups;
  for (const Parameter& option : command.options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  }
  for (const std::string& group : groups) {
    out << heading(group);
    for (const Parameter& option : command.options) {
      if (option.group == group) write_parameter(out, option);
    }
  }
}

void write_synopsis(std::ostringstream& out, const Command& command) {
  out << ".SH SYNOPSIS\n.B " << troff(command.path) << "\n";
  if (!command.commands.empty()) out << ".I command\n";
  out << ".RI [ options ]\n";
  for (const Parameter& argument : command.arguments) {
    const std::string dots = argument.repeats ? " .\\|.\\|." : "";
    out << (argument.required ? ".I " + troff(argument.argument) + dots
                              : ".RI [ " + troff(argument.argument) + " ]" + dots)
        << "\n";
  }
}

std::string page(const Command& command, const std::string& version) {
  std::ostringstream out;
  std::string title = page_name(command);
  out << ".\\\" Made from the options of the command.\n";
  std::string upper = title;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  out << ".TH " << troff(upper) << " 1 \"\" \"hawser " << version << "\" \"User Commands\"\n";
  std::string description = command.description;
  while (description.ends_with('.')) description.pop_back();
  out << ".SH NAME\n" << troff(title) << " \\- " << troff(description) << "\n";
  write_synopsis(out, command);
  if (!command.footer.empty()) out << ".SH EXAMPLE\n.nf\n" << troff(command.footer) << "\n.fi\n";
  if (!command.arguments.empty()) {
    out << ".SH ARGUMENTS\n";
    for (const Parameter& argument : command.arguments) write_parameter(out, argument);
  }
  if (!command.commands.empty()) {
    out << ".SH COMMANDS\n";
    for (const Command& sub : command.commands)
      out << ".TP\n\\fB" << troff(sub.name) << "\\fR\n" << troff(sub.description) << "\n";
  }
  write_options(out, command);
  out << ".SH EXIT STATUS\n0: done. 1: failed while running. 2: wrong input, and nothing was written. 130: "
         "interrupted.\n"
      << "141: the reader of the output went away. Unless it is 0, a message on standard error states what "
         "failed, "
         "where, on\nwhich value, and what to do.\n";
  if (title != "hawser") out << ".SH SEE ALSO\n.BR hawser (1)\n";
  return out.str();
}

}  // namespace

std::map<std::string, std::string> manual_pages(const Command& root, const std::string& version) {
  std::map<std::string, std::string> pages;
  for (const Command* command : all_commands(root)) {
    if (!command->path.starts_with("hawser launch "))
      pages[page_name(*command) + ".1"] = page(*command, version);
  }
  return pages;
}

}  // namespace hawser::cli
