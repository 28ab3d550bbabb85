// Hostile template test: chat templates that would overflow the stack, fill the memory or never end. Each
// gives an error that names the template; most errors also name the line and the bound. They run in a thread
// with a small stack, as in a service.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <functional>

#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/text/chat_template.h"
#include "tests/text/golden.h"

namespace hawser::text {
namespace hostile_template_test {

using testing::kModuleFolder;

constexpr size_t kSmallStack = size_t{256} << 10, kUsualStack = size_t{8} << 20;
constexpr const char* kVariables = R"({"x": "v", "l": [1, 2]})";

void in_thread(size_t stack, const std::function<void()>& call) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack), 0);
  pthread_t thread;
  const auto run = [](void* user) -> void* {
    (*static_cast<const std::function<void()>*>(user))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&call)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

/// Returns the reason of the error, or "" if the template renders.
std::string refusal(const std::string& source, size_t stack = kSmallStack) {
  std::string reason;
  in_thread(stack, [&] {
    try {
      ChatTemplate(source, "the template", kModuleFolder).render(kVariables, 0);
    } catch (const Error& error) {
      reason = error.what();
    }
  });
  return reason;
}

std::string times(int count, const std::string& part) {
  std::string all;
  for (int i = 0; i < count; ++i) all += part;
  return all;
}

struct Hostile {
  const char* name;
  std::string source, words;
};

/// Returns templates with deep or long syntax.
std::vector<Hostile> syntax() {
  constexpr int kMany = 30000;
  const std::string tokens = "line 1: a tag may have at most 4096 tokens", levels = "in more than 150 levels";
  return {
      {"and", "{{ x" + times(kMany, " and x") + " }}", tokens},
      {"plus", "{{ 1" + times(kMany, "+1") + " }}", tokens},
      {"filters", "{{ x" + times(kMany, "|trim") + " }}", tokens},
      {"attributes", "{{ x" + times(kMany, ".a") + " }}", tokens},
      {"not", "{{ " + times(kMany, "not ") + "x }}", tokens},
      {"minus", "{{ " + times(kMany, "- ") + "1 }}", tokens},
      {"brackets", "{{ " + times(kMany, "(") + "1" + times(kMany, ")") + " }}", tokens},
      {"lists", "{{ " + times(200, "[") + "1" + times(200, "]") + " }}", levels},
      {"elif", "{% if x %}" + times(kMany, "{% elif x %}") + "{% endif %}", "at most 2000 elif"},
      {"blocks", times(5000, "{% if x %}") + times(5000, "{% endif %}"), levels},
      {"tokens", times(40000, "{{ 1 }}"), "at most 50000 tokens"},
      {"length", times(2 << 20, "a"), "at most 1048576"},
      {"include", "\n{% include 'template' %}", "line 2: {% include %}"},
  };
}

/// Returns templates with values that are deep, contain themselves, or are far larger than their parts.
std::vector<Hostile> values() {
  const std::string loop = "{% set ns = namespace(x=[1], t='a') %}{% for i in range(9999) %}",
                    end = "{% endfor %}";
  const std::string items = "a value has more than", self = "a namespace inside", steps = "steps";
  return {
      {"depth", loop + "{% set ns.x = [ns.x] %}" + end + "{{ ns.x == ns.x }}", "in more than 200 levels"},
      {"maps", loop + "{% set ns.x = {'k': ns.x} %}" + end, "in more than 200 levels"},
      {"itself", "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", self},
      {"itself in a list", "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}", self},
      {"each other", "{% set a = namespace() %}{% set b = namespace(x=a) %}{% set a.x = b %}{{ a }}", self},
      {"pairs", loop + "{% set ns.x = [ns.x, ns.x] %}" + end + "{{ ns.x }}", items},
      {"doubled lists", loop + "{% set ns.x = ns.x + ns.x %}" + end, items},
      {"doubled texts", loop + "{% set ns.t = ns.t + ns.t %}" + end, steps},
      {"pairs by with", times(140, "{% with x = [x, x] %}") + "{{ x }}" + times(140, "{% endwith %}"), items},
      {"pairs by macros",
       "{% macro m(x, n) %}{% if n %}{{ m([x, x], n - 1) }}{% else %}{{ x == [x] }}{% endif %}{% endmacro %}"
       "{{ m(1, 40) }}",
       items},
      {"pairs by loops", "{% for x in [1] recursive %}{{ loop([[x, x], [x, x]]) }}{% endfor %}", items},
      {"pairs by maps", loop + "{% set ns.x = {'a': ns.x, 'b': ns.x} %}" + end + "{{ ns.x | tojson }}",
       items},
      {"repeated lists", "{{ [1] * 100000000 }}", steps},
      {"repeated tuples", "{{ ((1, 2) * 100000000) | length }}", steps},
  };
}

/// Returns templates with growing texts, and templates that do not end.
std::vector<Hostile> texts() {
  const std::string steps = "4194304 steps", none = "is not supported";
  const std::string nested = "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}";
  return {
      {"repeat", "{{ 'a' * 1000000000 }}", steps},
      {"replace", "{{ ('a' * 10000000).replace('a', 'b' * 10000000) }}", steps},
      {"replace by a filter", "{{ ('a' * 10000000) | replace('a', 'b' * 10000000) }}", steps},
      {"join", "{{ ('a' * 1000000).join(['x'] * 100000) }}", steps},
      {"join by a filter", "{{ range(100000) | join('x' * 1000000) }}", steps},
      {"printf width", "{{ '%1000000000d' % 1 }}", steps},
      {"printf precision", "{{ '%.1000000000f' % 1.5 }}", steps},
      {"printf by a filter", "{{ '%1000000000d' | format(1) }}", steps},
      {"printf of a width", "{{ '%*d' % (1000000000, 1) }}", none},
      {"printf of long texts", "{{ ('%s' * 1000000) % ('a' * 1000000) }}", steps},
      {"printf of a map", "{{ ('%(a)s' * 1000000) % {'a': 'a' * 1000000} }}", steps},
      {"format width", "{{ '{:1000000000}'.format(1) }}", steps},
      {"format of a width", "{{ '{:{}}'.format(1, 1000000000) }}", none},
      {"format of long texts", "{{ ('{a}' * 1000000).format(a='a' * 1000000) }}", steps},
      {"center", "{{ 'a' | center(1000000000) }}", steps},
      {"ljust", "{{ 'a'.ljust(1000000000) }}", steps},
      {"zfill", "{{ '1'.zfill(1000000000) }}", steps},
      {"tabs", "{{ ('\\t' * 100000).expandtabs(1000000) }}", steps},
      {"indent", "{{ ('a\\n' * 10000) | indent(1000000) }}", steps},
      {"indent of JSON", "{{ range(9999) | list | tojson(indent='x' * 1000000) }}", steps},
      {"batch", "{{ [1] | batch(100000000, 'x') | list | length }}", steps},
      {"split", "{{ ('a ' * 50000000).split() | length }}", steps},
      {"date", "{{ strftime_now('%1000000000d') }}", "does not take a width"},
      {"loops", nested + times(3, "{% endfor %}"), steps},
      {"loop of counts", "{% for i in range(99999) %}{% set z = ('a' * 100000).find('b') %}{% endfor %}",
       steps},
      {"macro", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "in more than 200 levels"},
      {"block", "{% block a %}{{ self.a() }}{% endblock %}", "in more than 200 levels"},
      {"message", "{{ raise_exception('x' * 10000000) }}", "xxx"},
  };
}

/// A template that runs for hours would reach the time limit of the test.
void expect_refused(const std::vector<Hostile>& list) {
  for (const Hostile& one : list) {
    const std::string reason = refusal(one.source);
    EXPECT_EQ(reason.rfind("the template: ", 0), 0u) << one.name << ": " << reason.substr(0, 200);
    EXPECT_NE(reason.find(one.words), std::string::npos) << one.name << ": " << reason.substr(0, 200);
    EXPECT_LT(reason.size(), 1200u) << one.name;
  }
}

TEST(HostileTemplate, DeepOrLongSyntaxIsRefused) { expect_refused(syntax()); }
TEST(HostileTemplate, ValuesThatAreDeepOrGrowAreRefused) { expect_refused(values()); }
TEST(HostileTemplate, TextsThatGrowAndLoopsWithoutEndAreRefused) { expect_refused(texts()); }

/// Templates just below the bounds render, even on the same small stack.
TEST(HostileTemplate, WhatIsJustWithinTheBoundsRenders) {
  for (const std::string& source :
       {"{{ x" + times(2000, " and x") + " }}", "{{ 1" + times(2000, "+1") + " }}",
        "{{ x" + times(2000, "|trim") + " }}", "{{ " + times(4000, "not ") + "x }}",
        "{{ " + times(4000, "-") + "1 }}", "{% if not x %}" + times(1990, "{% elif not x %}") + "{% endif %}",
        "{{ " + times(60, "[") + "1" + times(60, "]") + " }}",
        std::string(
            "{% set ns = namespace(x=[]) %}{% for i in range(150) %}{% set ns.x = [ns.x] %}{% endfor %}"
            "{{ ns.x == [ns.x] }}{{ ns.x | tojson }}")})
    EXPECT_EQ(refusal(source), "") << source.substr(0, 40);
}

/// Comparing large values takes no steps, so the caller's poll must end it.
TEST(HostileTemplate, ThePollOfTheCallerEndsARendering) {
  const ChatTemplate slow(
      "{% set a = range(9000) | list %}{% set b = range(9000) | list %}{% for i in range(99999) %}"
      "{% if [[a]] == [[b]] %}{% endif %}{% endfor %}",
      "the template", kModuleFolder);
  int polls = 0;
  set_interrupt_poll([](void* user) { return ++*static_cast<int*>(user) == 3; }, &polls);
  try {
    slow.render(kVariables, 0);
    ADD_FAILURE() << "it ended by itself";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kCancelled);
  }
  set_interrupt_poll(nullptr, nullptr);
}

/// A thread with a usual stack size is enough for rendering.
TEST(HostileTemplate, AUsualStackIsEnough) {
  for (const auto& list : {syntax(), values(), texts()})
    for (const Hostile& one : list)
      EXPECT_NE(refusal(one.source, kUsualStack).find(one.words), std::string::npos) << one.name;
}

/// No template uses so much memory that a process with 3 GiB of address space ends.
TEST(HostileTemplate, NoneTakesTheMemoryOfAProcess) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit little{rlim_t{3} << 30, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &little), 0);
  expect_refused(values());
  expect_refused(texts());
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
}

}  // namespace hostile_template_test
}  // namespace hawser::text
