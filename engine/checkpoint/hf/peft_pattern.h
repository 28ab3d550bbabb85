// Regular expressions of adapter_config.json, which are Python's. What PEFT's own files use is run as a POSIX expression, which
// finds the same whole matches; what has no such form (look-ahead, flags, back-references) is refused by name.
#pragma once

#include <memory>
#include <string>

namespace hawser::checkpoint::hf {

class PythonPattern {
 public:
  /// Throws kConfigInvalid, with `where` in the message.
  PythonPattern(const std::string& pattern, const std::string& where);
  ~PythonPattern();
  PythonPattern(PythonPattern&&) noexcept;

  bool matches_whole(const std::string& text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace hawser::checkpoint::hf
