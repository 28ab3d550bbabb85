// hws_thread_set_progress tests: making an engine reports the pass that computes references, and its callback
// or the interrupt poll ends the pass.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "capi/include/hawser.h"
#include "tests/harness/pair_data.h"

namespace hawser::capi {
namespace thread_progress_test {

struct Watcher {
  std::vector<nlohmann::json> seen;
  size_t most = SIZE_MAX;  ///< ends the call at this report
  bool throws = false;
  int destroyed = 0;
};

int32_t watch(void* user, const char* json, size_t size) {
  auto* const watcher = static_cast<Watcher*>(user);
  EXPECT_EQ(json[size], '\0');
  watcher->seen.push_back(nlohmann::json::parse(json, json + size));
  if (watcher->throws) throw std::runtime_error("host");
  return watcher->seen.size() >= watcher->most ? 1 : 0;
}
void count_destroy(void* user) { ++static_cast<Watcher*>(user)->destroyed; }

class ThreadProgress : public ::testing::Test {
 protected:
  ~ThreadProgress() override { hws_thread_set_progress(nullptr, nullptr, nullptr); }

  /// Makes and destroys an engine on 12 pairs.
  int32_t make(const std::string& objective = R"({"kind": "dpo"})", int32_t ranks = 1) {
    const std::string mesh = ranks > 1 ? R"({"mesh": {"dp_shard": 2}, "zero": {"stage": 3}})" : "{}";
    const std::string text = train::config_of(pairs_, objective, mesh).to_json();
    hws_config* config = nullptr;
    hws_comm* comm = nullptr;
    hws_engine* engine = nullptr;
    EXPECT_EQ(hws_config_parse(text.data(), text.size(), HWS_FORMAT_JSON, &config), HWS_OK);
    EXPECT_EQ(hws_comm_create_local(ranks, &comm), HWS_OK);
    const int32_t status = hws_engine_create_ranks(config, comm, 0, &engine);
    EXPECT_EQ(engine != nullptr, status == HWS_OK);
    hws_engine_destroy(engine);
    hws_comm_destroy(comm);
    hws_config_destroy(config);
    return status;
  }
  static std::string last_error() {
    hws_error* error = nullptr;
    EXPECT_EQ(hws_error_take(&error), HWS_OK);
    std::string message = hws_error_message(error);
    hws_error_destroy(error);
    return message;
  }

  const testing::ScratchFolder folder_;
  const std::string pairs_ = train::write_pairs(folder_, 12);
};

TEST_F(ThreadProgress, CountsTheRowsOfReferences) {
  for (const int32_t ranks : {1, 2}) {
    Watcher watcher;
    ASSERT_EQ(hws_thread_set_progress(watch, &watcher, count_destroy), HWS_OK);
    EXPECT_EQ(make(R"({"kind": "dpo"})", ranks), HWS_OK);
    ASSERT_GE(watcher.seen.size(), 2u);
    int64_t before = -1;
    for (const nlohmann::json& now : watcher.seen) {
      EXPECT_EQ(now.at("phase"), "references");
      EXPECT_EQ(now.at("total"), 24);
      EXPECT_GT(now.at("done").get<int64_t>(), before);
      before = now.at("done");
    }
    EXPECT_EQ(watcher.seen.front().at("done"), 0);
    EXPECT_EQ(before, 24);
    watcher.seen.clear();
    EXPECT_EQ(make(R"({"kind": "simpo"})", ranks), HWS_OK);
    EXPECT_TRUE(watcher.seen.empty()) << "simpo has no reference";
    EXPECT_EQ(watcher.destroyed, 0);
    ASSERT_EQ(hws_thread_set_progress(nullptr, nullptr, nullptr), HWS_OK);
    EXPECT_EQ(watcher.destroyed, 1);
    EXPECT_EQ(make(), HWS_OK);
    EXPECT_TRUE(watcher.seen.empty());
  }
}

TEST_F(ThreadProgress, ItsCallbackEndsTheCall) {
  for (const int32_t ranks : {1, 2})
    for (const size_t most : {size_t{1}, size_t{2}}) {
      Watcher watcher{{}, most};
      ASSERT_EQ(hws_thread_set_progress(watch, &watcher, nullptr), HWS_OK);
      EXPECT_EQ(make(R"({"kind": "dpo"})", ranks), HWS_CANCELLED);
      EXPECT_NE(last_error().find("of 24 references"), std::string::npos);
      EXPECT_EQ(watcher.seen.size(), most);
    }
  ASSERT_EQ(hws_thread_set_progress(nullptr, nullptr, nullptr), HWS_OK);
  EXPECT_EQ(make(), HWS_OK);
}

TEST_F(ThreadProgress, AnExceptionEndsTheCall) {
  Watcher watcher;
  watcher.throws = true;
  ASSERT_EQ(hws_thread_set_progress(watch, &watcher, nullptr), HWS_OK);
  EXPECT_EQ(make(), HWS_CALLBACK);
  EXPECT_NE(last_error().find("\"host\""), std::string::npos);
  EXPECT_EQ(watcher.seen.size(), 1u);
}

/// A program may give the thread an interrupt poll only once the pass has begun.
TEST_F(ThreadProgress, ThePollThatItsCallbackSetsEndsTheCall) {
  const auto begin = [](void*, const char*, size_t) -> int32_t {
    return hws_thread_set_interrupt([](void*) -> int32_t { return 1; }, nullptr, nullptr);
  };
  ASSERT_EQ(hws_thread_set_progress(begin, nullptr, nullptr), HWS_OK);
  EXPECT_EQ(make(), HWS_CANCELLED);
  EXPECT_NE(last_error().find("interrupt poll"), std::string::npos);
  ASSERT_EQ(hws_thread_set_interrupt(nullptr, nullptr, nullptr), HWS_OK);
}

TEST_F(ThreadProgress, BelongsToItsThread) {
  Watcher watcher, other;
  ASSERT_EQ(hws_thread_set_progress(watch, &watcher, nullptr), HWS_OK);
  std::thread([&] {
    ASSERT_EQ(hws_thread_set_progress(watch, &other, count_destroy), HWS_OK);
    EXPECT_EQ(make(), HWS_OK);
  }).join();
  EXPECT_TRUE(watcher.seen.empty());
  EXPECT_GE(other.seen.size(), 2u);
  EXPECT_EQ(other.destroyed, 1) << "with the thread";
}

}  // namespace thread_progress_test
}  // namespace hawser::capi
