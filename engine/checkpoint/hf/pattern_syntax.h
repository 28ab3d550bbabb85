// Pattern syntax: the syntax tree of a Python regular expression, limited to what peft_pattern.h supports.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hawser::checkpoint::hf {

/// A set of characters: ranges of code points or, if negated, all other code points.
struct CharacterSet {
  std::vector<std::pair<uint32_t, uint32_t>> ranges = {};  ///< first and last
  bool negated = false;

  bool has(uint32_t c) const {
    for (const auto& [first, last] : ranges)
      if (c >= first && c <= last) return !negated;
    return negated;
  }
};

enum class PatternKind {
  kSet,          ///< one character
  kSequence,     ///< all items in order
  kAlternation,  ///< one of the items
  kRepetition,   ///< the item `least` to `most` times
  kStart,        ///< ^ and \A
  kEnd,          ///< $: before a final line feed as well
  kVeryEnd,      ///< \Z
  kWordEdge,     ///< \b
  kNoWordEdge,   ///< \B
};

inline constexpr int64_t kNoMost = -1;  ///< a repetition without an upper bound

struct PatternNode {
  PatternKind kind = PatternKind::kSequence;
  std::vector<PatternNode> items = {};
  CharacterSet set = {};
  int64_t least = 0, most = 0;
  int64_t states = 1;  ///< upper bound of the automaton's states for this node
};

/// Throws kConfigInvalid, with `where` in the message, if the pattern is invalid or not supported.
PatternNode parse_pattern(const std::string& pattern, const std::string& where);

}  // namespace hawser::checkpoint::hf
