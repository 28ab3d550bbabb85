// Tests that functions_in finds the functions of code in this project's style, and nothing else.
#include "tests/rules/functions.h"

#include <gtest/gtest.h>

namespace hawser::rules {
namespace functions_test {

using Lines = std::vector<std::string>;

std::string names_and_lengths(const Lines& lines) {
  std::string text;
  for (const Function& function : functions_in({"a.cc", lines}))
    text += function.name + " " + std::to_string(function.line) + " " + std::to_string(function.lines) + "; ";
  return text;
}

TEST(Functions, AreFoundWithTheirLength) {
  EXPECT_EQ(
      names_and_lengths({"namespace a {", "int f(int x = {}) {", "  return x;", "}", "}  // namespace a"}),
      "f 1 3; ");
  EXPECT_EQ(names_and_lengths({"struct A : B {", "  A() : b_{1}, c_(2) {", "    g();", "  }", "  int b_{1};",
                               "  bool operator==(const A&) const { return true; }", "};"}),
            "A 1 3; operator== 5 1; ");
  EXPECT_EQ(names_and_lengths({"TEST(Suite, Case) {", "  const auto g = [&](int) {", "  };", "}"}),
            "Suite.Case 0 4; ");
  EXPECT_EQ(names_and_lengths(
                {"const Row kRows[] = {", "    {1, [](int x) {", "       return x;", "     }},", "};"}),
            "lambda 1 3; ");
  EXPECT_EQ(names_and_lengths({"__global__ void __launch_bounds__(256) add(float* x) {", "}"}), "add 0 2; ");
  EXPECT_EQ(names_and_lengths({"[[noreturn]] void fail() {", "}", "template <typename T>",
                               "concept C = requires(T x) {", "  x.y();", "};", "enum class E { kA };",
                               "extern \"C\" {", "void g();", "}"}),
            "fail 0 2; ");
}

TEST(Functions, BracesInTextAreNone) {
  EXPECT_EQ(names_and_lengths(
                {"#define A {", "/* { */ void f() {  // {", "  g(\"{\", '{', 1'000, R\"({)\");", "}"}),
            "f 1 3; ");
}

}  // namespace functions_test
}  // namespace hawser::rules
