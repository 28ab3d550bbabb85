// Implements functions.h: one pass over the characters keeps a stack of open braces and the kind of each.
#include "tests/rules/functions.h"

#include <cctype>
#include <optional>
#include <regex>

namespace hawser::rules {
namespace {

/// The file's text without comments, preprocessor lines and the contents of literals. Line ends are kept.
class CodeText {
 public:
  explicit CodeText(const SourceFile& file) {
    bool directive = false;
    for (const std::string& line : file.lines) {
      const size_t first = line.find_first_not_of(" \t");
      const bool plain = !block_comment_ && raw_end_.empty();
      directive = directive || (plain && first != std::string::npos && line[first] == '#');
      if (!directive) add(line);
      directive = directive && line.ends_with("\\");
      text_ += '\n';
    }
  }
  const std::string& text() const { return text_; }

 private:
  void add(const std::string& line) {
    size_t i = 0;
    while (i < line.size()) {
      if (block_comment_ || !raw_end_.empty()) {
        const std::string end = block_comment_ ? "*/" : raw_end_;
        const size_t at = line.find(end, i);
        if (at == std::string::npos) return;
        block_comment_ = false;
        raw_end_.clear();
        i = at + end.size();
      } else if (line.compare(i, 2, "//") == 0) {
        return;
      } else if (line.compare(i, 2, "/*") == 0) {
        block_comment_ = true;
        i += 2;
      } else if (line[i] == '"' && i > 0 && line[i - 1] == 'R') {
        const size_t open = line.find('(', i);
        raw_end_ = ")" + line.substr(i + 1, open - i - 1) + "\"";
        i = open + 1;
      } else if (line[i] == '"' || (line[i] == '\'' && !after_digit(line, i))) {
        text_ += "\"\"";
        i = after_literal(line, i);
      } else {
        text_ += line[i++];
      }
    }
  }
  static bool after_digit(const std::string& line,
                          size_t i) {  // in a number such as 1'000, ' starts no literal
    return i > 0 && std::isxdigit(static_cast<unsigned char>(line[i - 1])) != 0;
  }
  static size_t after_literal(const std::string& line, size_t i) {
    const char quote = line[i++];
    while (i < line.size() && line[i] != quote) i += line[i] == '\\' ? 2 : 1;
    return i + 1;
  }

  std::string text_;
  bool block_comment_ = false;
  std::string raw_end_;
};

enum class Opens { kScope, kFunction, kInitializer };

/// Returns what a brace outside of functions opens, from the code before it since the last ; { or }.
Opens what_opens(const std::string& before) {
  static const std::regex type(
      R"(^(\w+:)?\s*(template\s*<[^{]*>\s*)?((typedef|static|const|inline)\s+)*(class|struct|union|enum)\b)");
  static const std::regex scope(R"(^((inline )?namespace\b.*|extern "")$)");
  static const std::regex body_follows(R"((\)|\]|\b(const|noexcept|override|final|mutable|try))$)");
  const size_t last = before.find_last_not_of(" \n");
  const bool spaced = last + 1 < before.size();
  const std::string head = before.substr(0, last == std::string::npos ? 0 : last + 1);
  if (!spaced || head.empty() || head.ends_with("=") || head.ends_with(",")) return Opens::kInitializer;
  if (head.find("concept ") != std::string::npos) return Opens::kInitializer;
  if (std::regex_match(head, scope)) return Opens::kScope;
  if (std::regex_search(head, body_follows)) return Opens::kFunction;
  if (std::regex_search(head, type)) return Opens::kScope;
  return head.find('(') != std::string::npos ? Opens::kFunction : Opens::kInitializer;
}

std::string name_of(const std::string& before) {
  static const std::regex attribute(R"(\[\[[^\]]*\]\])");
  static const std::regex test(R"((?:^|\s)(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\))");
  static const std::regex named(R"((operator[^\s\w]+|~?\w+)\()");
  const std::string head = std::regex_replace(before, attribute, "");
  std::smatch match;
  if (std::regex_search(head, match, test)) return match[1].str() + "." + match[2].str();
  if (head.find("[") < head.find("(") || !std::regex_search(head, match, named)) return "lambda";
  for (std::string rest = head; std::regex_search(rest, match, named); rest = match.suffix()) {
    if (match[1] != "__launch_bounds__" && match[1] != "__attribute__") return match[1].str();
  }
  return "lambda";
}

struct Brace {
  Opens opens;
  std::string before;
  size_t line;
};

}  // namespace

std::vector<Function> functions_in(const SourceFile& file) {
  std::vector<Function> functions;
  std::vector<Brace> open;
  std::optional<size_t> inside;  // the index in `open` of the current function
  std::string before;            // code since the last ; { or }
  size_t line = 0;
  const CodeText code(file);
  for (const char c : code.text()) {
    if (c == '{') {
      const Opens opens = inside ? Opens::kInitializer : what_opens(before);
      if (opens == Opens::kFunction) inside = open.size();
      open.push_back({opens, before, line});
      before.clear();
    } else if (c == '}' && !open.empty()) {
      const Brace brace = open.back();
      open.pop_back();
      before = brace.opens == Opens::kInitializer ? brace.before + "_" : "";
      if (brace.opens == Opens::kFunction) {
        functions.push_back({name_of(brace.before), brace.line, line - brace.line + 1});
        inside.reset();
      }
    } else if (c == ';') {
      before.clear();
    } else if (!before.empty() || (c != ' ' && c != '\n')) {
      before += c == '\n' ? ' ' : c;
    }
    if (c == '\n') ++line;
  }
  return functions;
}

}  // namespace hawser::rules
