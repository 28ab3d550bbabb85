// Refusals: calls that must throw hawser::Error.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/base/error.h"

namespace hawser::testing {

/// Expects `call` to throw an error with `code`, and returns its message.
template <typename Call>
std::string refusal(Code code, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(code_name(error.code()), std::string(code_name(code))) << error.message();
    return error.message();
  }
  ADD_FAILURE() << "no error; expected " << code_name(code);
  return "";
}

/// Expects `call` to throw an error with `code` whose message holds every one of `texts`.
template <typename Call>
void expect_error(Code code, const std::vector<std::string>& texts, Call&& call) {
  const std::string message = refusal(code, call);
  for (const std::string& text : texts)
    EXPECT_NE(message.find(text), std::string::npos) << "no '" << text << "' in: " << message;
}

}  // namespace hawser::testing
