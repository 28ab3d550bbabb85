// Regular expressions of adapter_config.json, which are Python's (re.fullmatch) and come from strangers. The matcher
// follows all states of an automaton at once (K. Thompson, "Regular expression search algorithm", 1968), so its time
// is at most linear in the text times the size of the expression. The C library's matcher is not bounded: it
// backtracks, recurses and expands counted repetitions. What no automaton of this kind expresses (look-ahead,
// look-behind, back-references) and flags are refused by name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace hawser::checkpoint::hf {

/// Most states of an expression. A character is one, and a counted repetition stands for as many copies.
inline constexpr int64_t kMostPatternStates = 10000;
/// Most groups within each other.
inline constexpr int kMostPatternGroups = 64;

class PythonPattern {
 public:
  /// Throws kConfigInvalid, with `where` in the message.
  PythonPattern(const std::string& pattern, const std::string& where);
  ~PythonPattern();
  PythonPattern(PythonPattern&&) noexcept;

  bool matches_whole(const std::string& text) const;
  /// True if the expression matches the whole path, or all of it after one of its dots: (?:.*\.)?(?:pattern).
  bool matches_path_end(const std::string& path) const;

  int64_t states() const;

 private:
  struct Program;
  std::unique_ptr<const Program> program_;
};

}  // namespace hawser::checkpoint::hf
