// Tests the registration of a rank's memory by the links between devices: all ranks of a group register it,
// or none, and no bit changes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/device/far_run.h"

namespace hawser::testing {
namespace far_registration_test {

using json = nlohmann::json;

/// Sets a control of all far devices for its lifetime.
template <class Value>
class Set {
 public:
  Set(std::atomic<Value>& control, Value value) : control_(control), before_(control.exchange(value)) {}
  ~Set() { control_ = before_; }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

 private:
  std::atomic<Value>& control_;
  const Value before_;
};

Problem over_nccl() {
  Problem problem;
  problem.weights_every = 0;  // a step with loss weights has graphs of its own
  return far(problem, "nccl");
}

struct Registered {
  std::vector<StepRecord> records;
  json info;
};

/// Takes three steps: the third launches graphs that the second captured.
Registered run(const Layout& layout) {
  LayoutRun run(over_nccl(), layout);
  Registered r;
  for (int step = 0; step < 3; ++step) r.records.push_back(run.step());
  r.info = json::parse(run.trainer().reports().info_json());
  EXPECT_GT(r.info.at("graphs").at("launched"), 0);
  return r;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all(4);
  all[0].dp_shard = 2, all[0].stage = 3;
  all[1].tp = 2, all[1].dp_shard = 2, all[1].stage = 1;
  all[2].pp = 2, all[2].accumulation = 2;
  all[3].cp = 2;
  return all;
}

TEST(FarRegistration, IsOfAllMemoryThatExchangesAccess) {
  for (const Layout& layout : layouts()) {
    {
      LayoutRun run(over_nccl(), layout);
      run.step();
      const json info = json::parse(run.trainer().reports().info_json());
      const int64_t links = info.at("peer_links").at("links");
      EXPECT_GT(links, 0);
      EXPECT_EQ(info.at("peer_links").at("registered"), links) << layout.name();
      EXPECT_FALSE(info.contains("registered_without")) << info.at("registered_without");
      EXPECT_EQ(control().registered, 2 * links);  // the arena, and the memory for sums over ranks
    }
    EXPECT_EQ(control().registered, 0) << layout.name();
    EXPECT_EQ(control().outside_registered, 0) << layout.name();
  }
}

TEST(FarRegistration, ChangesNoBit) {
  for (const Layout& layout : layouts()) {
    const Registered with = run(layout);
    const Set<bool> none(control().has_no_peer_memory, true);
    const Registered without = run(layout);
    EXPECT_EQ(first_difference(with.records, without.records), "") << layout.name();
    EXPECT_EQ(without.info.at("peer_links").at("registered"), 0);
    EXPECT_NE(without.info.at("registered_without").get<std::string>().find("no memory for links"),
              std::string::npos);
  }
}

TEST(FarRegistration, IsOfAllRanksOfAGroupOrNone) {
  Layout layout;
  layout.dp_shard = 2, layout.stage = 3;
  const Registered with = run(layout);
  const Set<int64_t> one(control().cannot_register, 1);
  LayoutRun trains(over_nccl(), layout);
  std::vector<StepRecord> records;
  for (int step = 0; step < 3; ++step) records.push_back(trains.step());
  EXPECT_EQ(control().registered, 0);
  EXPECT_EQ(first_difference(with.records, records), "");
  const json info = json::parse(trains.trainer().reports().info_json());
  EXPECT_EQ(info.at("peer_links").at("registered"), 0);
  EXPECT_NE(info.at("registered_without").get<std::string>().find("1 other rank"), std::string::npos)
      << info.at("registered_without");
}

}  // namespace far_registration_test
}  // namespace hawser::testing
