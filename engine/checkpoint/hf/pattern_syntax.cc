// Pattern parser: a recursive-descent parser with a bounded depth of groups. It follows Python's
// Lib/re/_parser.py.
#include "engine/checkpoint/hf/pattern_syntax.h"

#include <algorithm>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/utf8.h"
#include "engine/checkpoint/hf/peft_pattern.h"
#include "engine/checkpoint/json_text.h"

namespace hawser::checkpoint::hf {
namespace {

constexpr uint32_t kLastCodePoint = 0x10ffff;
constexpr int64_t kMostRepetitions = 1 << 30;  // larger counts exceed the limit of states anyhow

bool is_ascii_letter_or_digit(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

CharacterSet one(uint32_t c) { return {.ranges = {{c, c}}}; }

class PatternParser {
 public:
  PatternParser(const std::string& pattern, const std::string& where) : pattern_(pattern), where_(where) {
    for (size_t at = 0; at < pattern.size();) {
      const uint32_t point = next_code_point(pattern.data(), pattern.size(), &at);
      if (point == kInvalidCodePoint) refuse();
      text_.push_back(point);
    }
  }

  PatternNode parse() {
    PatternNode node = alternation(0);
    if (!is_done()) refuse();  // an unmatched )
    return node;
  }

 private:
  bool is_done() const { return at_ == text_.size(); }
  bool is_next(char c) const { return !is_done() && text_[at_] == static_cast<uint32_t>(c); }
  bool take(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i)
      if (at_ + i >= text_.size() || text_[at_ + i] != static_cast<uint32_t>(text[i])) return false;
    at_ += text.size();
    return true;
  }

  [[noreturn]] void refuse() const {
    fail(Code::kConfigInvalid,
         "{}: Hawser cannot read the regular expression {}; write the modules' names as a list instead",
         where_, in_quotes(pattern_));
  }
  [[noreturn]] void refuse_size(const std::string& limit) const {
    fail(Code::kConfigInvalid, "{}: the regular expression {} {}; write the modules' names as a list instead",
         where_, in_quotes(pattern_), limit);
  }
  void check_states(int64_t states) const {
    if (states > kMostPatternStates)
      refuse_size("has more than " + std::to_string(kMostPatternStates) +
                  " states (a character is one; a counted repetition stands for as many copies)");
  }

  PatternNode alternation(int groups) {
    PatternNode node{.kind = PatternKind::kAlternation, .states = 0};
    do {
      node.items.push_back(sequence(groups));
      node.states += node.items.back().states + (node.items.size() > 1 ? 1 : 0);
      check_states(node.states);
    } while (take("|"));
    return node;
  }

  PatternNode sequence(int groups) {
    PatternNode node{.kind = PatternKind::kSequence, .states = 0};
    while (!is_done() && !is_next('|') && !is_next(')')) {
      node.items.push_back(repeated(groups));
      node.states += node.items.back().states;
      check_states(node.states);
    }
    return node;
  }

  PatternNode repeated(int groups) {
    PatternNode item = atom(groups);
    int64_t least = 0, most = 0;
    if (!take_count(&least, &most)) return item;
    if (item.kind >= PatternKind::kStart) refuse();  // nothing to repeat
    take("?");  // has no effect: a lazy count matches the same complete texts as a greedy one
    int64_t none;
    if (is_next('+') || is_next('?') || take_count(&none, &none))
      refuse();  // a possessive count, or a count of a count
    const int64_t copies = most == kNoMost ? least + 1 : most, splits = copies - least;
    PatternNode node{.kind = PatternKind::kRepetition, .least = least, .most = most};
    node.states = copies > kMostPatternStates ? copies : copies * std::max<int64_t>(item.states, 1) + splits;
    check_states(node.states);
    node.items.push_back(std::move(item));
    return node;
  }

  /// Reads *, +, ?, {m}, {m,}, {,n} or {m,n}. Other braces are plain characters, as in Python.
  bool take_count(int64_t* least, int64_t* most) {
    if (take("*")) return *least = 0, *most = kNoMost, true;
    if (take("+")) return *least = 1, *most = kNoMost, true;
    if (take("?")) return *least = 0, *most = 1, true;
    const size_t begin = at_;
    if (!take("{")) return false;
    int64_t first = number();
    const bool comma = take(",");
    const int64_t second = comma ? number() : first;
    if (!take("}") || (first < 0 && !comma)) return at_ = begin, false;
    *least = std::max<int64_t>(first, 0);
    *most = second < 0 ? kNoMost : second;
    if (*most != kNoMost && *most < *least) refuse();
    return true;
  }

  /// Returns -1 if there is no number.
  int64_t number() {
    int64_t value = -1;
    for (; !is_done() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      value = std::min(kMostRepetitions, std::max<int64_t>(value, 0) * 10 + (text_[at_] - '0'));
    return value;
  }

  PatternNode atom(int groups) {
    if (take("(")) return group(groups + 1);
    if (take("[")) {
      PatternNode node{.kind = PatternKind::kSet, .set = bracketed()};
      node.states = std::max<int64_t>(1, static_cast<int64_t>(node.set.ranges.size()));
      return node;
    }
    if (take("\\")) return escape();
    if (take("^")) return {.kind = PatternKind::kStart};
    if (take("$")) return {.kind = PatternKind::kEnd};
    if (take(".")) return {.kind = PatternKind::kSet, .set = {.ranges = {{'\n', '\n'}}, .negated = true}};
    if (int64_t none; take_count(&none, &none)) refuse();  // nothing to repeat
    return {.kind = PatternKind::kSet, .set = one(text_[at_++])};
  }

  PatternNode group(int groups) {
    if (groups > kMostPatternGroups)
      refuse_size("has more than " + std::to_string(kMostPatternGroups) + " levels of nested groups");
    if (take("?P<")) {
      if (is_done() || (text_[at_] >= '0' && text_[at_] <= '9') || is_next('>')) refuse();
      while (!is_done() && (is_ascii_letter_or_digit(text_[at_]) || is_next('_'))) ++at_;
      if (!take(">")) refuse();
    } else if (!take("?:") && is_next('?')) {
      refuse();
    }
    PatternNode node = alternation(groups);
    if (!take(")")) refuse();
    return node;
  }

  /// Parses what follows a backslash outside of brackets.
  PatternNode escape() {
    if (take("A")) return {.kind = PatternKind::kStart};
    if (take("Z")) return {.kind = PatternKind::kVeryEnd};
    if (take("b")) return {.kind = PatternKind::kWordEdge};
    if (take("B")) return {.kind = PatternKind::kNoWordEdge};
    return {.kind = PatternKind::kSet, .set = escaped_set()};
  }

  /// Parses an escape that stands for characters, in brackets and outside. Classes such as \w contain only
  /// ASCII, because module paths are ASCII.
  CharacterSet escaped_set() {
    if (is_done()) refuse();
    const uint32_t c = text_[at_++];
    const uint32_t lower = c | 0x20;
    if (c < 128 && (lower == 'd' || lower == 'w' || lower == 's')) {
      CharacterSet set;
      set.negated = c != lower;
      if (lower == 'd') set.ranges = {{'0', '9'}};
      if (lower == 'w') set.ranges = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
      if (lower == 's') set.ranges = {{'\t', '\r'}, {0x1c, 0x20}};
      return set;
    }
    constexpr std::string_view kLetters = "abfnrtv", kControls = "\a\b\f\n\r\t\v";
    if (c < 128 && kLetters.find(static_cast<char>(c)) != kLetters.npos)
      return one(static_cast<uint32_t>(kControls[kLetters.find(static_cast<char>(c))]));
    if (is_ascii_letter_or_digit(c)) refuse();
    return one(c);
  }

  CharacterSet bracketed() {
    CharacterSet set;
    set.negated = take("^");
    for (bool first = true; first || !is_next(']'); first = false) {
      if (is_done()) refuse();
      CharacterSet item = member();
      const bool is_range = is_next('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (is_range) {
        ++at_;
        const CharacterSet end = member();
        if (!is_one(item) || !is_one(end) || end.ranges[0].first < item.ranges[0].first) refuse();
        item.ranges[0].second = end.ranges[0].first;
      }
      if (item.negated) item = complement(item);
      set.ranges.insert(set.ranges.end(), item.ranges.begin(), item.ranges.end());
    }
    ++at_;
    return set;
  }

  CharacterSet member() {
    return take("\\") ? escaped_set() : is_done() ? (refuse(), CharacterSet()) : one(text_[at_++]);
  }

  static bool is_one(const CharacterSet& set) {
    return !set.negated && set.ranges.size() == 1 && set.ranges[0].first == set.ranges[0].second;
  }

  /// Returns the complement of a set, whose ranges must be sorted.
  static CharacterSet complement(const CharacterSet& set) {
    CharacterSet others;
    uint32_t next = 0;
    for (const auto& [first, last] : set.ranges) {
      if (first > next) others.ranges.push_back({next, first - 1});
      next = last + 1;
    }
    others.ranges.push_back({next, kLastCodePoint});
    return others;
  }

  const std::string& pattern_;
  const std::string& where_;
  std::vector<uint32_t> text_;
  size_t at_ = 0;
};

}  // namespace

PatternNode parse_pattern(const std::string& pattern, const std::string& where) {
  return PatternParser(pattern, where).parse();
}

}  // namespace hawser::checkpoint::hf
