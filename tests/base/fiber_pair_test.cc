// Tests FiberPair: the order in which its two tasks run, errors, and stacks that survive.
#include "engine/base/fiber_pair.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>

#include "engine/base/error.h"

namespace hawser {
namespace fiber_pair_test {

TEST(FiberPair, ChangeWhereTheySaySo) {
  FiberPair turns;
  std::string order;
  const auto three = [&](const char* names) {
    return [&, names] {
      for (int i = 0; i < 3; ++i) {
        if (i > 0) turns.yield();
        order += names[i];
      }
    };
  };
  turns.run(three("abc"), three("123"));
  EXPECT_EQ(order, "a1b2c3");
  order.clear();
  turns.run(three("abc"), [&] { order += '-'; });
  EXPECT_EQ(order, "a-bc");
  order.clear();
  turns.run([&] { order += '-'; }, three("123"));
  EXPECT_EQ(order, "-123");
  turns.yield();
  EXPECT_EQ(order, "-123") << "nothing runs";
}

TEST(FiberPair, KeepTheLocalsOfBoth) {
  FiberPair turns;
  const auto sum = [&](int from, double* out) {
    return [&, from, out] {
      std::array<double, 2000> own{};
      for (size_t i = 0; i < own.size(); ++i) {
        own[i] = from + static_cast<double>(i);
        if (i % 100 == 0) turns.yield();
      }
      for (const double x : own) *out += x;
    };
  };
  for (int again = 0; again < 3; ++again) {
    double a = 0, b = 0;
    turns.run(sum(1, &a), sum(7, &b));
    EXPECT_EQ(a, 2000.0 * 1999 / 2 + 2000);
    EXPECT_EQ(b, 2000.0 * 1999 / 2 + 14000);
  }
}

/// A task that has not failed runs to its end; the first error is thrown.
TEST(FiberPair, EndBothBeforeAnErrorIsThrown) {
  FiberPair turns;
  for (const bool first_fails : {true, false}) {
    int ended = 0;
    const auto works = [&] { turns.yield(), turns.yield(), ++ended; };
    const auto fails = [&] {
      turns.yield();
      throw std::runtime_error("of one");
    };
    const auto expect_thrown = [&](auto first, auto second) {
      try {
        turns.run(first, second);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "of one");
      }
    };
    first_fails ? expect_thrown(fails, works) : expect_thrown(works, fails);
    EXPECT_EQ(ended, 1);
  }
  const auto throws = [&](const char* what) {
    return [&, what] {
      turns.yield();
      throw std::runtime_error(what);
    };
  };
  try {
    turns.run(throws("first"), throws("second"));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "first");
  }
  int ran = 0;
  turns.run([&] { ++ran; }, [&] { ++ran; });
  EXPECT_EQ(ran, 2) << "after errors";
}

/// An exception that is caught on one stack must not reach the other.
TEST(FiberPair, CatchOnEitherStack) {
  FiberPair turns;
  int caught = 0;
  const auto work = [&] {
    for (int i = 0; i < 3; ++i) {
      try {
        turns.yield();
        fail(Code::kUnknown, "number {}", i);
      } catch (const Error&) {
        ++caught;
      }
    }
  };
  turns.run(work, work);
  EXPECT_EQ(caught, 6);
}

}  // namespace fiber_pair_test
}  // namespace hawser
