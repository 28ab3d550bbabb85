// Callbacks: exceptions thrown in them, and the lifetime of their user data.
#include "capi/src/callback.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "capi/src/guard.h"

namespace hawser::capi {
namespace callback_test {

class Thing : public Object {
 public:
  static constexpr HandleType kType = HandleType::kEngine;
};

TEST(Callback, WhatItThrowsBecomesAStatus) {
  Reservation reservation(Thing::kType);
  Slot* slot = reservation.slot();
  void* handle = reservation.publish(std::make_unique<Thing>());
  const auto run = [&](auto&& fn) {
    return guard("hws_f", [&](const Call& call) {
      const Use<Thing> use(call, handle, Access::kExclusive);
      call_host("hws_f", slot, Callback::kTrain, fn);
    });
  };
  EXPECT_EQ(run([] { return 0; }), static_cast<int32_t>(Code::kOk));
  EXPECT_EQ(run([]() -> int { throw std::runtime_error("host"); }), static_cast<int32_t>(Code::kCallback));
  EXPECT_NE(take_last_error()->message.find("\"host\""), std::string::npos);
  EXPECT_EQ(run([]() -> int { throw 7; }), static_cast<int32_t>(Code::kCallback));
  EXPECT_EQ(run([] { return 0; }), static_cast<int32_t>(Code::kOk)) << "nothing is left marked as a callback";
  destroy_handle(Thing::kType, handle);
}

void count(void* user) { ++*static_cast<int*>(user); }

TEST(UserData, IsDestroyedExactlyOnce) {
  int destroyed = 0;
  {
    UserData first(&destroyed, count);
    UserData second(std::move(first));
    EXPECT_EQ(second.get(), &destroyed);
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
  { const UserData none(&destroyed, nullptr); }
  EXPECT_EQ(destroyed, 1);
}

}  // namespace callback_test
}  // namespace hawser::capi
