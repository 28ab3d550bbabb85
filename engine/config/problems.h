// ProblemList: collects the problems of a config and throws them together, so that a user can fix all of them
// at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/config_tree.h"

namespace hawser::config {

/// Collects problems, up to a number that a person can read; counts the rest.
class ProblemList {
 public:
  void add(std::string pointer, std::string message, std::string fix);
  bool empty() const { return problems_.empty(); }
  std::vector<Problem> take();

 private:
  std::vector<Problem> problems_;
  size_t dropped_ = 0;
};

/// Throws kConfigInvalid if there is a problem: one line each, and {"problems": [...]} as details.
void throw_if_any(const std::vector<Problem>& problems);

/// Quotes text for messages, escaped as in JSON and cut if long.
std::string quote(std::string_view text);

}  // namespace hawser::config
