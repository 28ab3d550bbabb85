// The handle table: checks of handles, concurrent calls, and lifetimes of objects.
#include "capi/src/handle_table.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace hawser::capi {
namespace handle_table_test {

std::atomic<int> g_alive{0};

class Thing : public Object {
 public:
  static constexpr HandleType kType = HandleType::kEngine;
  explicit Thing(int v = 0) : value(v) { ++g_alive; }
  ~Thing() override { --g_alive; }
  int value;
};

const Call kCall("hws_test");

void* make(int value = 0) {
  void* handle = nullptr;
  publish(std::make_unique<Thing>(value), &handle);
  return handle;
}
void destroy(void* handle) { destroy_handle(HandleType::kEngine, handle); }

Code use_code(const void* handle, Access access = Access::kShared) {
  try {
    const Use<Thing> use(kCall, handle, access);
    return Code::kOk;
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("hws_test"), std::string::npos);
    return error.code();
  }
}

TEST(HandleTable, FindsItsObjectsAndNothingElse) {
  void* a = make(1);
  void* b = make(2);
  EXPECT_EQ(Use<Thing>(kCall, a, Access::kShared)->value, 1);
  EXPECT_EQ(Use<Thing>(kCall, b, Access::kShared)->value, 2);
  EXPECT_EQ(use_code(nullptr), Code::kBadHandle);
  EXPECT_EQ(use_code(&g_alive), Code::kBadHandle) << "a pointer is no handle";
  const auto value = reinterpret_cast<uintptr_t>(a);
  for (int bit = 0; bit < 64; ++bit) {
    const void* forged = reinterpret_cast<const void*>(value ^ (uintptr_t{1} << bit));
    if (forged == b) continue;
    EXPECT_EQ(use_code(forged), Code::kBadHandle) << "bit " << bit;
  }
  destroy_handle(HandleType::kBuffer, a);  // of another type: nothing happens
  EXPECT_EQ(use_code(a), Code::kOk);
  destroy(a);
  destroy(b);
  EXPECT_EQ(use_code(a), Code::kBadHandle);
  destroy(a);
  destroy(nullptr);
  EXPECT_EQ(g_alive, 0);
}

TEST(HandleTable, AReusedSlotGivesAnotherHandle) {
  void* first = make();
  destroy(first);
  for (int i = 0; i < 1000; ++i) {
    void* next = make();
    EXPECT_NE(next, first);
    EXPECT_EQ(use_code(first), Code::kBadHandle);
    destroy(next);
  }
}

TEST(HandleTable, AFullTableIsAnErrorAndRecovers) {
  std::vector<void*> all;
  try {
    while (all.size() <= kMaxHandles) all.push_back(make());
    FAIL() << "more than " << kMaxHandles << " handles";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfMemory);
  }
  EXPECT_GT(all.size(), kMaxHandles - kErrorHandles - 64) << "other tests may have left a few slots behind";
  for (void* handle : all) destroy(handle);
  EXPECT_EQ(g_alive, 0);
  destroy(make());
}

TEST(HandleTable, ConstCallsShareAndOthersExclude) {
  void* handle = make();
  {
    const Use<Thing> reader(kCall, handle, Access::kShared);
    EXPECT_EQ(use_code(handle, Access::kShared), Code::kOk);
  }
  {
    const Use<Thing> writer(kCall, handle, Access::kExclusive);
    for (const Access access : {Access::kShared, Access::kExclusive, Access::kNested}) {
      EXPECT_EQ(use_code(handle, access), Code::kBusy);
      std::thread([&] { EXPECT_EQ(use_code(handle, access), Code::kBusy); }).join();
    }
    EXPECT_EQ(use_code(handle, Access::kAlways), Code::kOk);
  }
  EXPECT_EQ(use_code(handle, Access::kExclusive), Code::kOk);
  destroy(handle);
}

TEST(HandleTable, AnExclusiveCallWaitsForConstOnes) {
  void* handle = make();
  auto reader = std::make_unique<Use<Thing>>(kCall, handle, Access::kShared);
  std::atomic<bool> inside{false};
  std::thread writer([&] {
    const Use<Thing> use(kCall, handle, Access::kExclusive);
    inside = true;
  });
  while (use_code(handle, Access::kShared) == Code::kOk) std::this_thread::yield();
  EXPECT_FALSE(inside);
  reader.reset();
  writer.join();
  EXPECT_TRUE(inside);
  destroy(handle);
}

TEST(HandleTable, CallbacksMayMakeTheCallsThatTheirKindAllows) {
  void* handle = make();
  {
    const Use<Thing> run(kCall, handle, Access::kExclusive);
    {
      const CallbackScope callback(run.slot(), Callback::kTrain);
      EXPECT_EQ(use_code(handle, Access::kShared), Code::kOk);
      EXPECT_EQ(use_code(handle, Access::kExclusive), Code::kBusy);
      std::thread([&] { EXPECT_EQ(use_code(handle, Access::kNested), Code::kBusy); }).join();
      {
        const Use<Thing> nested(kCall, handle, Access::kNested);
        EXPECT_EQ(use_code(handle, Access::kNested), Code::kBusy);
        const CallbackScope token(nested.slot(), Callback::kConstOnly);
        EXPECT_EQ(use_code(handle, Access::kShared), Code::kOk);
        EXPECT_EQ(use_code(handle, Access::kNested), Code::kBusy);
      }
      EXPECT_EQ(use_code(handle, Access::kNested), Code::kOk);
    }
    EXPECT_EQ(use_code(handle, Access::kShared), Code::kBusy);
  }
  EXPECT_EQ(use_code(handle, Access::kExclusive), Code::kOk);
  destroy(handle);
}

TEST(HandleTable, DestroyWaitsForRunningCalls) {
  void* handle = make();
  auto call = std::make_unique<Use<Thing>>(kCall, handle, Access::kShared);
  std::atomic<bool> gone{false};
  std::thread destroyer([&] {
    destroy(handle);
    gone = true;
  });
  while (use_code(handle) == Code::kOk) std::this_thread::yield();
  EXPECT_FALSE(gone);
  EXPECT_EQ(g_alive, 1);
  call.reset();
  destroyer.join();
  EXPECT_EQ(g_alive, 0);
}

TEST(HandleTable, DestroyInACallbackIsPutOffToTheEndOfTheCall) {
  Reservation reservation(HandleType::kEngine);
  std::atomic<bool>* cancel = reservation.cancel();
  void* handle = reservation.publish(std::make_unique<Thing>());
  {
    const Use<Thing> run(kCall, handle, Access::kExclusive);
    const CallbackScope callback(run.slot(), Callback::kTrain);
    destroy(handle);
    EXPECT_EQ(use_code(handle), Code::kBadHandle);
    EXPECT_EQ(g_alive, 1);
    EXPECT_TRUE(*cancel) << "nobody else could end the run";
  }
  EXPECT_EQ(g_alive, 0);
}

TEST(HandleTable, CancelSetsTheFlagOfLiveHandlesOnly) {
  Reservation reservation(HandleType::kEngine);
  std::atomic<bool>* cancel = reservation.cancel();
  void* handle = reservation.publish(std::make_unique<Thing>());
  EXPECT_FALSE(*cancel);
  EXPECT_EQ(cancel_handle(HandleType::kEngine, handle), Code::kOk);
  EXPECT_TRUE(*cancel);
  *cancel = false;
  destroy(handle);
  EXPECT_EQ(cancel_handle(HandleType::kEngine, handle), Code::kBadHandle);
  EXPECT_EQ(cancel_handle(HandleType::kEngine, nullptr), Code::kBadHandle);
  EXPECT_EQ(cancel_handle(HandleType::kEngine, cancel), Code::kBadHandle);
  EXPECT_FALSE(*cancel);
}

TEST(HandleTable, ManyThreadsMakeUseCancelAndDestroy) {
  constexpr int kThreads = 8, kRounds = 2000;
  std::vector<std::atomic<void*>> shared(16);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t random = static_cast<uint64_t>(t) * 7919 + 1;
      for (int i = 0; i < kRounds; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        std::atomic<void*>& place = shared[(random >> 33) % shared.size()];
        switch ((random >> 40) % 4) {
          case 0:
            destroy(place.exchange(make(i)));
            break;
          case 1:
            destroy(place.exchange(nullptr));
            break;
          case 2:
            cancel_handle(HandleType::kEngine, place.load());
            break;
          default:
            use_code(place.load(), (random >> 50) % 2 != 0 ? Access::kShared : Access::kExclusive);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<void*>& place : shared) destroy(place.load());
  EXPECT_EQ(g_alive, 0);
}

/// Runs `child` in a forked child; its result must be true within 10 s.
template <typename Child>
void expect_in_child(Child&& child) {
  const pid_t pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::alarm(10);
    ::_exit(child() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(HandleTable, AForkedChildGetsAStatusAndFreesNothingOfTheParents) {
  void* handle = make();
  std::atomic<bool> leave{false};
  std::thread caller([&] {
    const Use<Thing> running(kCall, handle, Access::kExclusive);
    while (!leave) std::this_thread::yield();
  });
  while (use_code(handle) == Code::kOk) std::this_thread::yield();
  expect_in_child([&] {
    bool fine = use_code(handle) == Code::kForked && use_code(handle, Access::kAlways) == Code::kForked;
    fine = fine && cancel_handle(HandleType::kEngine, handle) == Code::kForked;
    destroy(handle);
    fine = fine && g_alive == 1 && use_code(handle) == Code::kBadHandle;
    void* own = make();
    fine = fine && use_code(own) == Code::kOk;
    destroy(own);
    return fine && g_alive == 1;
  });
  leave = true;
  caller.join();
  expect_in_child([&] {
    destroy(handle);  // no call runs, but the object's threads would not be there
    return g_alive == 1;
  });
  EXPECT_EQ(use_code(handle), Code::kOk);
  destroy(handle);
  EXPECT_EQ(g_alive, 0);
}

}  // namespace handle_table_test
}  // namespace hawser::capi
