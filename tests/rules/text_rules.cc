// Implements text_rules.h: each rule is a search over the lines of the tree.
#include "tests/rules/text_rules.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

#include "tests/rules/functions.h"

namespace hawser::rules {
namespace {

constexpr size_t kLongestFile = 400;
constexpr size_t kLongestFunction = 60;
constexpr std::ptrdiff_t kColumns = 110;

/// True for files that may contain #if: the public header's export macro, and the vector types of a CPU
/// level.
bool may_have_conditions(const std::string& path) {
  return path == "capi/include/hawser.h" || is_below(path, "kernels/cpu/simd");
}

/// True for a line `#ifndef X` right before `#define X`.
bool is_include_guard(const SourceFile& file, size_t index) {
  static const std::regex guard(R"(^#ifndef (\w+)\s*$)");
  std::smatch match;
  return std::regex_match(file.lines[index], match, guard) && index + 1 < file.lines.size() &&
         file.lines[index + 1] == "#define " + match[1].str();
}

bool is_library(const std::string& path) {
  return is_c_family(path) &&
         (is_below(path, "engine") || is_below(path, "kernels") || is_below(path, "capi/src"));
}

/// Counts the characters of UTF-8: each has exactly one byte that is not a continuation byte.
std::ptrdiff_t characters(const std::string& line) {
  return std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

std::string without_comment(const std::string& line) { return line.substr(0, line.find("//")); }

/// True if the line contains a word that every match of `pattern` contains, and has a match. Looking for the
/// words first takes a tenth of the time, because std::regex is slow and most lines have none.
bool has(const std::string& line, std::initializer_list<std::string_view> words, const std::regex& pattern) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return line.find(word) != std::string::npos; }) &&
         std::regex_search(line, pattern);
}

/// Returns each line of the chosen files for which `breaks` is true.
Problems lines_that(const Tree& tree, const std::function<bool(const std::string& path)>& chosen,
                    const std::function<bool(const SourceFile&, size_t index)>& breaks,
                    const std::string& remedy) {
  Problems problems;
  for (const SourceFile& file : tree) {
    if (!chosen(file.path)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (breaks(file, i)) problems.push_back(place(file, i) + "\n  " + remedy);
    }
  }
  return problems;
}

/// Compares lengths with a limit and with a list of exceptions, to which nobody may add.
Problems too_long(const Exceptions& lengths, size_t limit, const Exceptions& allowed,
                  const std::string& remedy) {
  Problems problems;
  for (const auto& [name, lines] : lengths) {
    const auto entry = allowed.find(name);
    const size_t most = entry == allowed.end() ? limit : entry->second;
    if (lines > most)
      problems.push_back(name + ": " + std::to_string(lines) + " lines, at most " + std::to_string(most) +
                         ": " + remedy);
  }
  for (const auto& [name, most] : allowed) {
    const auto length = lengths.find(name);
    if (length == lengths.end() || length->second <= limit)
      problems.push_back(name + " is short now, or gone: take it off the list of exceptions");
  }
  return problems;
}

/// Returns the first line that is neither empty nor a #! line.
std::string first_line(const SourceFile& file) {
  const auto line = std::find_if(file.lines.begin(), file.lines.end(), [](const std::string& text) {
    return !text.empty() && !text.starts_with("#!");
  });
  return line == file.lines.end() ? "" : *line;
}

bool opens_with_comment(const SourceFile& file) {
  const std::string line = first_line(file);
  const bool script = file.path.ends_with(".py") || file.path.ends_with(".sh");
  if (script || (file.path.ends_with(".in") && !file.path.ends_with(".h.in")))
    return line.starts_with("# ") || line.starts_with("\"\"\"");
  return line.starts_with("//") || line.starts_with("/*");
}

/// Returns the arguments of the first command `program action ...` that begins in a line, up to its end. A
/// command goes on in the next line after a backslash or in the next string literal.
std::string command_of(const SourceFile& file, size_t index, const std::string& program,
                       const std::vector<std::string>& actions) {
  static const std::regex breaks(R"("\s*\n\s*"|\\\n)");
  const std::string& line = file.lines[index];
  for (size_t at = line.find(program); at != std::string::npos; at = line.find(program, at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0)) continue;
    std::string text = line.substr(at + program.size());
    for (size_t i = index + 1; i < std::min(index + 4, file.lines.size()); ++i) text += "\n" + file.lines[i];
    text = std::regex_replace(text, breaks, " ");
    text = text.substr(0, text.find_first_of("\n#`;&|"));
    for (const std::string& action : actions) {
      if (text.starts_with(action + " ")) return text.substr(action.size());
    }
  }
  return "";
}

}  // namespace

Exceptions exceptions(const std::vector<std::string>& lines) {
  Exceptions allowed;
  for (const std::string& line : lines) {
    if (line.empty() || line.starts_with("#")) continue;
    std::istringstream fields(line);
    std::string name;
    fields >> name >> allowed[name];
  }
  return allowed;
}

Problems long_files(const Tree& tree, const Exceptions& allowed) {
  Exceptions lengths;
  for (const SourceFile& file : tree) {
    if (!is_below(file.path, "capi/include"))  // the whole public API is one header, in C and in C++
      lengths[file.path] = file.lines.size();
  }
  return too_long(lengths, kLongestFile, allowed, "split it by idea");
}

Problems long_functions(const Tree& tree, const Exceptions& allowed) {
  Exceptions lengths;
  for (const SourceFile& file : tree) {
    if (!is_c_family(file.path)) continue;
    for (const Function& function : functions_in(file)) {
      size_t& lines = lengths[file.path + ":" + function.name];  // overloads share a name: the longest counts
      lines = std::max(lines, function.lines);
    }
  }
  return too_long(lengths, kLongestFunction, allowed, "split it by idea");
}

Problems missing_opening_comments(const Tree& tree) {
  std::set<std::string> introduced;
  for (const SourceFile& file : tree) {
    if (opens_with_comment(file)) introduced.insert(file.path);
  }
  Problems problems;
  for (const SourceFile& file : tree) {
    // The opening comment of a .cc file may be in its own header.
    std::filesystem::path header = file.path;
    header.replace_extension(".h");
    const bool by_header = first_line(file).find(header.filename().string() + "\"") != std::string::npos;
    if (!introduced.contains(file.path) && !(by_header && introduced.contains(header)))
      problems.push_back(file.path + ": open it with a comment that says what it is and why");
  }
  return problems;
}

Problems conditions(const Tree& tree) {
  static const std::regex condition(R"(^\s*#\s*(if|ifdef|ifndef|elif|else)\b.*)");
  return lines_that(
      tree, [](const std::string& path) { return is_c_family(path) && !may_have_conditions(path); },
      [](const SourceFile& file, size_t i) {
        return has(file.lines[i], {"#"}, condition) && !is_include_guard(file, i);
      },
      "make it a file of its own that the build chooses");
}

Problems empty_names(const Tree& tree) {
  static const std::set<std::string> empty = {"utils", "util", "common", "ops", "helpers", "helper", "misc"};
  Problems problems;
  for (const SourceFile& file : tree) {
    for (const auto& part : std::filesystem::path(file.path)) {
      if (empty.contains(part.stem())) problems.push_back(file.path + " is named for nothing");
    }
  }
  return problems;
}

Problems side_effects_of_the_library(const Tree& tree) {
  // abort() without arguments is the C library's function; RankComm::abort takes arguments.
  static const std::regex forbidden(
      R"((^|[^\w:.>])(std::)?(printf|fprintf|puts|fputs|getenv|secure_getenv|exit|_exit|quick_exit|signal|sigaction)\s*\(|(^|[^\w:.>])(std::)?abort\s*\(\s*\)|std::(cout|cerr|clog)\b)");
  return lines_that(
      tree,  // capi/src/comm_env.cc reads the environment, for the one function that is documented to do so
      [](const std::string& path) { return is_library(path) && path != "capi/src/comm_env.cc"; },
      [](const SourceFile& file, size_t i) {
        return has(without_comment(file.lines[i]),
                   {"printf", "puts", "getenv", "exit", "sig", "abort", "std::c"}, forbidden);
      },
      "the library neither prints, exits, reads the environment nor handles signals");
}

Problems prints_of_the_command(const Tree& tree) {
  static const std::regex literal(R"("(\\.|[^"\\])*")");
  static const std::regex forbidden(
      R"((^|[^\w:.>])(std::)?(printf|puts|putchar|vprintf)\s*\(|\bstdout\b|std::cout\b)");
  return lines_that(
      tree, [](const std::string& path) { return is_c_family(path) && is_below(path, "bindings/cli"); },
      [](const SourceFile& file, size_t i) {
        const std::string code = without_comment(file.lines[i]);
        return has(code, {"printf", "put", "stdout", "cout"}, forbidden) &&
               std::regex_search(std::regex_replace(code, literal, "\"\""), forbidden);
      },
      "use output()");
}

Problems long_comments(const Tree& tree) {
  static const std::regex comment(R"re(^\s*(//|/\*|\*\s)|^[^"]*\s//)re");
  return lines_that(
      tree, is_c_family,
      [](const SourceFile& file, size_t i) {
        return characters(file.lines[i]) > kColumns && std::regex_search(file.lines[i], comment);
      },
      "end comments within column " + std::to_string(kColumns));
}

Problems plain_json(const Tree& tree) {
  static const std::regex plain(R"(nlohmann/json(_fwd)?\.hpp|nlohmann::(ordered_)?json\b)");
  return lines_that(
      tree,
      [](const std::string& path) {
        return is_library(path) && path != "engine/base/json.h" && path != "engine/base/json_fwd.h";
      },
      [](const SourceFile& file, size_t i) { return has(file.lines[i], {"nlohmann"}, plain); },
      "use Json or OrderedJson of engine/base/json.h");
}

Problems unbounded_json(const Tree& tree) {
  // Two of these parsers build values, one belongs to the example service, and three build nothing deep. Each
  // has its own bound.
  static const std::set<std::string> parsers = {
      "engine/base/parse_json.cc",        "engine/config/tree_json.cc", "engine/checkpoint/json_text.cc",
      "engine/checkpoint/safetensors.cc", "bindings/cli/parse_json.cc", "examples/service/parse_json.cc"};
  static const std::regex parses(
      R"(\b(\w*[jJ]son|J)::(parse|accept|sax_parse)\s*\(|>>\s*\w*json\b|"_json\b)");
  return lines_that(
      tree,
      [](const std::string& path) {
        const bool program = is_below(path, "bindings/cli") || is_below(path, "examples");
        return (is_library(path) || (is_c_family(path) && program)) && !parsers.contains(path);
      },
      [](const SourceFile& file, size_t i) {
        return has(without_comment(file.lines[i]), {"parse", "accept", "json"}, parses);
      },
      "use parse_json(), which bounds the depth");
}

Problems strategies_by_name(const Tree& tree, const Exceptions& allowed) {
  static const std::regex literal(R"("(\\.|[^"\\])*")");
  static const std::regex names(
      R"(\bmesh\.(pp|dp_replicate|dp_shard|cp|cp_mode|tp|sequence_parallel|ep)\b|\bAxis::k\w+|\benum mesh::Axis\b)"
      R"(|\bpipeline\.(schedule|chunks|group|layers)\b|\bPipelineSchedule::|\boffload\.activations\b)"
      R"(|\bOffloadSpace::)");
  Exceptions lines;
  for (const SourceFile& file : tree) {
    const bool knows = is_below(file.path, "engine/parallel") || is_below(file.path, "engine/config") ||
                       is_below(file.path, "engine/mesh");
    if (!is_c_family(file.path) || !is_below(file.path, "engine") || knows) continue;
    lines[file.path] =
        static_cast<size_t>(std::count_if(file.lines.begin(), file.lines.end(), [](const std::string& line) {
          const std::string code = without_comment(line);
          return has(code, {"mesh", "Axis", "pipeline", "Schedule", "ffload"}, names) &&
                 std::regex_search(std::regex_replace(code, literal, "\"\""), names);
        }));
  }
  return too_long(lines, 0, allowed, "ask the strategies (engine/parallel/compose.h)");
}

Problems foreign_names(const Tree& tree) {
  struct Installer {
    std::vector<std::string> programs, actions;
    std::string prefix, option;  // what the name must begin with, and the option that the command needs
    std::string remedy;
  };
  static const std::vector<Installer> installers = {
      {{"pip ", "pip3 ", "pipx ", "uv ", "poetry "},
       {"install", "download", "wheel", "add"},
       "hawser-train",
       "--no-index",
       "PyPI's hawser is another project: pip install --no-index --find-links DIR hawser-train"},
      {{"cargo "},
       {"add", "install"},
       "hawser-train",
       "--path",
       "the crate hawser is another project: cargo add --path DIR hawser-train"},
      {{"conda ", "mamba "},
       {"install"},
       "",
       "--override-channels",
       "no public channel has it: conda install --override-channels -c CHANNEL hawser"}};
  static const std::regex dependency(R"re(^\s*hawser(?:[-_]sys)?\s*=\s*(?:"[\d=^~*<>]|\{))re");
  static const std::regex name(R"re([\s'"]((?:lib)?hawser[\w-]*))re");
  Problems problems;
  for (const SourceFile& file : tree) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (file.lines[i].find("hawser") != std::string::npos && std::regex_search(file.lines[i], dependency))
        problems.push_back(place(file, i) + "\n  the crate hawser is another project: hawser-train");
      for (const Installer& installer : installers) {
        for (const std::string& program : installer.programs) {
          const std::string words = command_of(file, i, program, installer.actions);
          std::smatch found;
          if (!std::regex_search(words, found, name)) continue;
          if (!found[1].str().starts_with(installer.prefix) ||
              words.find(installer.option) == std::string::npos)
            problems.push_back(place(file, i) + "\n  " + installer.remedy);
        }
      }
    }
  }
  return problems;
}

Problems kernels_without_cases(const Tree& tree) {
  static const std::regex entry(R"(^\s*KERNEL\((\w+), \w+\).*)");
  std::string rows;  // tests/harness/op_cases_<op>.cc; op_cases.cc itself lists the names
  std::vector<std::string> kernels;
  for (const SourceFile& file : tree) {
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (file.path.starts_with("tests/harness/op_cases_")) rows += line + "\n";
      if (file.path == "kernels/include/table.h" && std::regex_match(line, match, entry))
        kernels.push_back(match[1]);
    }
  }
  Problems problems;
  if (kernels.empty()) problems.emplace_back("no kernel found in kernels/include/table.h");
  for (const std::string& kernel : kernels) {
    if (rows.find("\"" + kernel + "\"") == std::string::npos)
      problems.push_back(kernel + " has no row in tests/harness/op_cases_*.cc");
  }
  return problems;
}

}  // namespace hawser::rules
