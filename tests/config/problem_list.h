// Problem list: reads the messages of config errors, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/config/config_tree.h"

namespace hawser::config {

/// Returns the error that `action` throws; fails the test if it throws none.
template <typename Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(Code::kOk, "");
}

/// Returns the lines of an error's message, one per problem.
inline std::vector<std::string> lines_of(const std::string& message) {
  std::vector<std::string> lines(1);
  for (const char c : message) {
    if (c == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += c;
    }
  }
  return lines;
}

/// Returns the text of the problem at a pointer ("message; fix"), or "" if there is none.
inline std::string problem_at(const std::vector<Problem>& problems, std::string_view pointer) {
  for (const Problem& problem : problems) {
    if (problem.pointer == pointer) return problem.message + "; " + problem.fix;
  }
  return "";
}

inline std::vector<Problem> problems_of(std::string_view json) {
  return validate(ConfigTree::from_json(json));
}

inline std::string listing(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems)
    text += problem.pointer + ": " + problem.message + "; " + problem.fix + "\n";
  return text;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

#define EXPECT_CONTAINS(text, part) \
  EXPECT_TRUE(contains(text, part)) << (text) << "\n  does not contain: " << (part)

}  // namespace hawser::config
