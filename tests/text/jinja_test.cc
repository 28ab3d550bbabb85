// Jinja test: each expression gives the same text as in Jinja2, or is refused. No expression renders
// differently without an error, except those listed here with the reason.
#include <gtest/gtest.h>

#include <set>

#include "engine/base/error.h"
#include "engine/base/json.h"
#include "engine/text/chat_template.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace jinja_test {

using testing::kModuleFolder;

/// These differ because views and groups print as lists, a range prints its items, numbers have no
/// attributes, and one digraph has another title case.
const std::set<std::string> kOther = {"{{ d.items() }}", "{{ range(3) }}",
                                      "{{ ms | groupby('role') | list }}", "{{ n.real }}",
                                      "{{ '\u01c6'.title() }}"};

/// Expressions that Jinja2 renders and Hawser refuses, with an error that names them.
const std::set<std::string> kRefused = {
    "{{ '%r' % s }}",
    "{{ s | truncate(5) }}",
    "{{ cycler('a', 'b').next() }}",
    "{{ s.encode('utf-8') }}",
    "{{ s | wordwrap(5) }}",
    "{{ s | urlencode }}",
    "{{ 1234567 | filesizeformat }}",
    "{{ s | striptags }}",
    "{{ s | forceescape }}",
    "{{ l | pprint }}",
    "{{ s | attr('x') }}",
    "{{ d | attr('b') }}",
    "{{ s.format_map(d) }}",
    "{{ '\u0663'.isdigit() }}",
    "{{ '\u00b2'.isdigit() }}",
    "{{ '\u00b2'.isdecimal() }}",
    "{{ '\u00df'.casefold() }}",
    "{{ +3 }}",
    "{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1, 2) }}",
    "{% autoescape true %}{{ '<b>' }}{% endautoescape %}",
};

TEST(Jinja, EachExpressionGivesWhatJinja2GivesOrIsRefused) {
  const OrderedJson golden =
      OrderedJson::parse(testing::read_file(std::string(HAWSER_JINJA) + "/expressions.json"));
  const std::string variables = golden["variables"].dump();
  int equal = 0;
  for (const OrderedJson& one : golden["cases"]) {
    const std::string source = one["template"];
    std::string text, reason;
    try {
      text = ChatTemplate(source, "the template", kModuleFolder).render(variables, 0).text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDataInvalid);
      reason = error.what();
    }
    if (kOther.count(source) > 0) {
      EXPECT_NE(OrderedJson(text), one["text"]) << source << " is equal: take it off the list";
    } else if (kRefused.count(source) > 0) {
      EXPECT_NE(reason, "") << source << " is not refused: take it off the list";
    } else if (one["text"].is_null()) {
      EXPECT_NE(reason, "") << source << " gives " << text << "; Jinja2 refuses it";
    } else {
      EXPECT_EQ(text, one["text"].get<std::string>()) << source << " " << reason;
      ++equal;
    }
  }
  EXPECT_GE(equal, 380);
}

}  // namespace jinja_test
}  // namespace hawser::text
