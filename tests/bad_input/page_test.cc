// Page test: tests the command's rows, and capi/errors.md, which must contain exactly the messages that the
// rows produce.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "engine/base/error.h"
#include "tests/bad_input/case.h"

namespace hawser::bad_input {
namespace page_test {

constexpr const char* kHead =
    "# Error messages for bad input\n\n"
    "<!-- Generated from the rows of tests/bad_input, which are also tests: bad_input_test writes it "
    "into "
    "the build folder. -->\n\n"
    "Every failure gives a status and a message that says what is wrong, where, with which value, and what "
    "to "
    "do. `hws_error_details` has the same for programs. These are the actual messages, with `...` for a "
    "folder; long ones are cut.\n";

/// Returns a table cell, as one line.
std::string cell(const std::string& text) {
  constexpr size_t kMost = 600;
  std::string result;
  for (const char c : text) {
    if (c == '|') {
      result += "\\|";
    } else if (c == '\n') {
      result += "<br>";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  while (result.ends_with("<br>")) result.resize(result.size() - 4);
  if (result.size() <= kMost) return result;
  size_t end = kMost;
  while ((result[end] & 0xC0) == 0x80) --end;
  return result.substr(0, end) + " ...";
}

std::string words_of(const Case& row) {
  std::string text;
  for (const std::string& word : row.words) text += word + " ... ";
  return text;
}

std::string page() {
  std::string text = kHead;
  std::vector<Area> areas = library_areas();
  areas.push_back(command_area());
  for (const Area& area : areas) {
    const bool is_command = &area == &areas.back();
    text += "\n## " + area.title + "\n\n" + area.introduction + "\n\n";
    text += is_command ? "| what | message |\n|---|---|\n" : "| what | status | message |\n|---|---|---|\n";
    for (const Case& row : area.cases) {
      const Outcome& outcome = outcome_of(area, row);
      EXPECT_EQ(difference(row, outcome), "");
      text += "| " + cell(row.what) + " | ";
      if (!is_command) text += std::string(code_name(static_cast<Code>(outcome.status))) + " | ";
      text += cell(row.varies ? words_of(row) : outcome.message) + " |\n";
    }
  }
  return text;
}

TEST(BadInputPage, HasManyRowsAndNoneTwice) {
  size_t rows = command_area().cases.size();
  for (const Area& area : library_areas()) {
    rows += area.cases.size();
    std::set<std::string> seen;
    for (const Case& row : area.cases) EXPECT_TRUE(seen.insert(row.what).second) << row.what;
  }
  EXPECT_GE(rows, 200u);
}

std::set<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

/// Returns the lines of `text` that `other` does not have, each after `mark`.
std::string lines_missing(const std::string& text, const std::string& other, const std::string& mark) {
  const std::set<std::string> known = lines_of(other);
  std::string missing;
  for (const std::string& line : lines_of(text))
    if (!known.contains(line)) missing += mark + line + "\n";
  return missing;
}

TEST(BadInputPage, ThePageSaysWhatTheLibrarySays) {
  if (!HAWSER_HAS_TEXT) GTEST_SKIP() << "there is no text module";
  const std::string made = page();
  std::ifstream file(HAWSER_PAGE, std::ios::binary);
  const std::string kept{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (made == kept) return;
  std::ofstream(HAWSER_NEW_PAGE, std::ios::binary) << made;
  ADD_FAILURE() << "messages have changed: look at the differences, then cp " HAWSER_NEW_PAGE " " HAWSER_PAGE
                   "\n"
                << lines_missing(kept, made, "- ") << lines_missing(made, kept, "+ ");
}

}  // namespace page_test
}  // namespace hawser::bad_input
