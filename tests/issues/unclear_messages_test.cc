// Tests bad input whose error message was unclear. The fuzzers (tests/fuzz) and code reviews found these
// cases.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/error.h"
#include "engine/checkpoint/hf/hf_model.h"
#include "engine/config/config_tree.h"

namespace hawser {
namespace unclear_messages_test {

Error error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(Code::kOk, "");
}

void expect_utf8(const std::string& text) {
  EXPECT_NO_THROW((void)nlohmann::json(text).dump()) << text;  // dump refuses text that is not UTF-8
}

/// The JSON reader quotes the text that it read last, which may end inside a character.
TEST(UnclearMessages, QuoteNoHalfCharacters) {
  for (const char* text : {"{\"seed\": 0.1767\xb5}", "{\"seed\": \xe2\x82}", "{\"\xf0\x9f\x98"}) {
    const Error error = error_of([&] { config::ConfigTree::from_json(text); });
    EXPECT_EQ(error.code(), Code::kConfigParse) << error.message();
    expect_utf8(error.message());
  }
}

/// A long value was cut after 77 bytes. If the cut was inside a character, the error became an internal
/// error.
TEST(UnclearMessages, CutLongValuesBetweenCharacters) {
  for (const char* shift : {"", "a"}) {
    std::string value = shift;
    for (int i = 0; i < 60; ++i) value += "\xc3\xa4";
    const Error error = error_of([&] {
      checkpoint::hf::model_json(nlohmann::json{{"model_type", "gpt2"}, {"n_layer", value}}.dump(), {});
    });
    EXPECT_EQ(error.code(), Code::kConfigInvalid) << error.message();
    EXPECT_NE(error.message().find("/n_layer"), std::string::npos) << error.message();
    expect_utf8(error.message());
  }
}

/// A config.json of a few bytes could allocate 16 GiB, for a window of each of its layers.
TEST(UnclearMessages, LayersOfGpt2AreBounded) {
  const Error error =
      error_of([] { checkpoint::hf::model_json(R"({"model_type": "gpt2", "n_layer": 2147483647})", {}); });
  EXPECT_EQ(error.code(), Code::kConfigInvalid);
  EXPECT_NE(error.message().find("/n_layer is 2147483647"), std::string::npos) << error.message();
}

/// The name of an unknown key was shown in full, however long it was.
TEST(UnclearMessages, LongKeysAreCut) {
  const Error error =
      error_of([] { config::ConfigTree::from_json("{\"" + std::string(1000000, 'k') + "\": 1}"); });
  EXPECT_EQ(error.code(), Code::kConfigInvalid);
  EXPECT_LT(error.message().size(), 1000u);
}

}  // namespace unclear_messages_test
}  // namespace hawser
