// The guard, the thread's last error, argument checks and struct sizes.
#include "capi/src/guard.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "capi/include/hawser.h"
#include "capi/src/structs.h"

namespace hawser::capi {
namespace guard_test {

struct Taken {
  int32_t status, code;
  std::string message, details;
};

Taken take() {
  hws_error* error = nullptr;
  Taken taken{};
  taken.status = hws_error_take(&error);
  taken.code = hws_error_code(error);
  taken.message = hws_error_message(error);
  taken.details = hws_error_details(error);
  hws_error_destroy(error);
  return taken;
}

TEST(Guard, TurnsWhateverIsThrownIntoAStatusAndAText) {
  static_assert(noexcept(guard("f", [](const Call&) {})));
  EXPECT_EQ(guard("f", [](const Call&) {}), HWS_OK);

  const auto own = [](const Call&) { throw Error(Code::kDataLoss, "shard 3 is gone", "{\"file\":\"a\"}"); };
  EXPECT_EQ(guard("f", own), HWS_DATA_LOSS);
  Taken taken = take();
  EXPECT_EQ(taken.code, HWS_DATA_LOSS);
  EXPECT_EQ(taken.message, "shard 3 is gone");
  EXPECT_EQ(taken.details, "{\"file\":\"a\"}");

  EXPECT_EQ(guard("f", [](const Call&) { throw std::bad_alloc(); }), HWS_OUT_OF_MEMORY);
  taken = take();
  EXPECT_EQ(taken.code, HWS_OUT_OF_MEMORY);
  EXPECT_NE(taken.message.find("f: "), std::string::npos) << taken.message;
  EXPECT_EQ(taken.details, R"({"function":"f"})");

  EXPECT_EQ(guard("f", [](const Call&) { throw std::runtime_error("boom"); }), HWS_INTERNAL);
  EXPECT_EQ(take().message, "f: boom");

  EXPECT_EQ(guard("f", [](const Call&) { throw 7; }), HWS_INTERNAL);
  EXPECT_NE(take().message.find("unknown type"), std::string::npos);
}

TEST(LastError, IsTakenOnceAndLeftAloneBySuccess) {
  EXPECT_EQ(take().status, HWS_NOT_FOUND);
  EXPECT_EQ(take().status, HWS_NOT_FOUND) << "not finding one is no error to be found";
  guard("f", [](const Call&) { fail(Code::kIo, "one"); });
  guard("f", [](const Call&) { fail(Code::kIo, "two"); });
  guard("f", [](const Call&) {});
  EXPECT_EQ(take().message, "two");
  EXPECT_EQ(take().status, HWS_NOT_FOUND);
}

TEST(LastError, IsEachThreadsOwnAndLongTextsAreWhole) {
  guard("f", [](const Call&) { fail(Code::kIo, "mine"); });
  const std::string text(64 << 10, 'x');
  std::thread([&] {
    EXPECT_EQ(take().status, HWS_NOT_FOUND);
    guard("f", [&](const Call&) { throw Error(Code::kIo, text); });
    EXPECT_EQ(take().message, text);
    guard("f", [](const Call&) { fail(Code::kIo, "left behind; freed with the thread"); });
  }).join();
  EXPECT_EQ(take().message, "mine");
}

struct LateCaller {
  ~LateCaller() {
    // After the library's own thread-local state: must neither crash nor leak.
    guard("f", [](const Call&) { fail(Code::kIo, "late"); });
  }
};

TEST(LastError, SurvivesCallsFromTheHostsThreadLocalDestructors) {
  std::thread([] {
    thread_local LateCaller late;  // made before the library's, so destroyed after it
    static_cast<void>(&late);
    guard("f", [](const Call&) { fail(Code::kIo, "early"); });
  }).join();
}

void expect_invalid(const char* argument, const std::function<void(const Call&)>& check) {
  EXPECT_EQ(guard("hws_f", check), HWS_INVALID_ARGUMENT);
  const Taken taken = take();
  EXPECT_NE(taken.message.find(std::string("hws_f: `") + argument + "`"), std::string::npos) << taken.message;
  EXPECT_EQ(taken.details, std::string(R"({"function":"hws_f","argument":")") + argument + "\"}");
}

TEST(Arguments, RefusalsNameFunctionAndArgument) {
  alignas(8) char bytes[16] = {};
  const auto* odd = reinterpret_cast<const int32_t*>(bytes + 1);
  const auto* even = reinterpret_cast<const int32_t*>(bytes);
  expect_invalid("p", [&](const Call& call) { call.pointer(static_cast<int*>(nullptr), "p"); });
  expect_invalid("p", [&](const Call& call) { call.pointer(odd, "p"); });
  expect_invalid("p", [&](const Call& call) { call.optional(odd, "p"); });
  expect_invalid("a", [&](const Call& call) { call.array(odd, 1, "a"); });
  expect_invalid("a", [&](const Call& call) { call.array(even, SIZE_MAX / 2, "a"); });
  expect_invalid("a", [&](const Call& call) { call.array(even, size_t{1} << 60, "a"); });
  expect_invalid("a", [&](const Call& call) { call.array<int32_t>(nullptr, 1, "a"); });
  expect_invalid("t", [&](const Call& call) { call.text(nullptr, "t"); });
  expect_invalid("t", [&](const Call& call) { call.text("a\xff", "t"); });
  expect_invalid("t", [&](const Call& call) { call.text("\xc0\xaf", "t"); });
  expect_invalid("t", [&](const Call& call) { call.text("\xed\xa0\x80", "t"); });
  expect_invalid("t", [&](const Call& call) { call.text("abc", "t", 2); });
  expect_invalid("p", [&](const Call& call) { call.path("", "p"); });
  expect_invalid("d", [&](const Call& call) { call.dtype("fp32", "d"); });
  expect_invalid("l", [&](const Call& call) { call.string_list("[1]", "l"); });
  expect_invalid("l", [&](const Call& call) { call.string_list("[\"a\"", "l"); });
  expect_invalid("n", [&](const Call& call) { call.range(3, 4, 5, "n"); });
  const auto fine = [&](const Call& call) {
    call.optional<int32_t>(nullptr, "p");
    call.array<int32_t>(nullptr, 0, "a");
    EXPECT_EQ(call.text("z\xc3\xbc", "t"), "z\xc3\xbc");
    EXPECT_EQ(call.path("\xff", "p"), "\xff") << "paths are bytes";
    EXPECT_EQ(call.dtype(nullptr, "d"), "");
    EXPECT_EQ(call.string_list("[\"a\",\"b\"]", "l"), (std::vector<std::string>{"a", "b"}));
    EXPECT_TRUE(call.string_list(nullptr, "l").empty());
  };
  EXPECT_EQ(guard("hws_f", fine), HWS_OK);
}

TEST(Arguments, OverlapIsExact) {
  const char a[8] = {};
  EXPECT_FALSE(overlap(a, 4, a + 4, 4));
  EXPECT_TRUE(overlap(a, 5, a + 4, 4));
  EXPECT_TRUE(overlap(a + 4, 4, a, 5));
  EXPECT_FALSE(overlap(a, 0, a, 8));
}

struct Sample {  // two versions of one struct
  uint32_t struct_size;
  int32_t first;
  int32_t second;
};
constexpr uint32_t kFirst = 8;

template <typename Body>
int32_t run(Body&& body) {
  return guard("hws_f", std::forward<Body>(body));
}

TEST(Structs, OlderAndNewerProgramsAreUnderstood) {
  struct {
    Sample known{sizeof known, 1, 2};
    int32_t tail = 0;
  } host;
  Sample seen{};
  const auto read = [&](const Call& call) { seen = copy_in(call, &host.known, kFirst, "s"); };
  EXPECT_EQ(run(read), HWS_OK);
  EXPECT_EQ(seen.second, 2);
  host.known.struct_size = kFirst;  // a program that does not know `second`
  EXPECT_EQ(run(read), HWS_OK);
  EXPECT_EQ(seen.second, 0);
  host.known.struct_size = sizeof host;  // a newer one that does not use its new field
  EXPECT_EQ(run(read), HWS_OK);
  host.tail = 1;  // and one that does
  EXPECT_EQ(run(read), HWS_ABI_MISMATCH);
  EXPECT_NE(take().message.find("byte 12"), std::string::npos);
  for (const uint32_t size : {0u, 4u, 7u, 4097u, UINT32_MAX}) {
    host.known.struct_size = size;
    EXPECT_EQ(run(read), HWS_ABI_MISMATCH) << size;
  }
  const auto* odd = reinterpret_cast<const Sample*>(reinterpret_cast<const char*>(&host) + 1);
  EXPECT_EQ(run([&](const Call& call) { copy_in(call, odd, kFirst, "s"); }), HWS_INVALID_ARGUMENT);
}

TEST(Structs, ResultsAreWrittenAsFarAsTheHostKnowsThem) {
  Sample host{kFirst, 1, 2};
  const auto write = [&](const Call& call) {
    CopyOut<Sample>(call, &host, kFirst, "s").write({sizeof(Sample), 10, 20});
  };
  EXPECT_EQ(run(write), HWS_OK);
  EXPECT_EQ(host.struct_size, kFirst);
  EXPECT_EQ(host.first, 10);
  EXPECT_EQ(host.second, 2);
  EXPECT_EQ(run([](const Call& call) { CopyOut<Sample>(call, nullptr, kFirst, "s").write({}); }), HWS_OK);
}

}  // namespace guard_test
}  // namespace hawser::capi
