// PythonPattern: a matcher for the regular expressions of adapter_config.json, which are Python's
// (re.fullmatch) and untrusted. It follows all states of an automaton at once (K. Thompson,
// "Regular expression search algorithm", 1968), so its time is at most linear in the text times the size of
// the expression. The C library's matcher has no bound: it backtracks, recurses and expands counted
// repetitions. Look-ahead, look-behind, back-references and flags are refused by name; an automaton of this
// kind cannot express the first three.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace hawser::checkpoint::hf {

/// Maximum states of an expression. A character is one state; a counted repetition has as many copies as its
/// count.
inline constexpr int64_t kMostPatternStates = 10000;
/// Maximum nesting of groups.
inline constexpr int kMostPatternGroups = 64;

class PythonPattern {
 public:
  /// Throws kConfigInvalid, with `where` in the message.
  PythonPattern(const std::string& pattern, const std::string& where);
  ~PythonPattern();
  PythonPattern(PythonPattern&&) noexcept;

  bool matches_whole(const std::string& text) const;
  /// True if the expression matches the complete path, or everything after one of its dots:
  /// (?:.*\.)?(?:pattern).
  bool matches_path_end(const std::string& path) const;

  int64_t states() const;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace hawser::checkpoint::hf
