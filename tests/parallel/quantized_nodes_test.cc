// Quantised weights and gradients on 3 nodes of 8 ranks: neither number of ranks is a power of two, and
// shards end within a parameter. Copies are gathered from all ranks or from those of one node (hpZ), and from
// disk.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>

#include "engine/plan/plan.h"
#include "tests/harness/layout_run.h"

namespace hawser::testing {
namespace quantized_nodes_test {

constexpr int64_t kNodes = 3, kRanks = 8;

/// Sums are formed on each node first.
Layout nodes() {
  Layout l;
  l.dp_shard = kNodes * kRanks, l.stage = 3, l.sum_group = kRanks;
  l.quantized_weights = "int8", l.quantized_gradients = "int4";
  return l;
}

Layout replicas() {
  Layout l = nodes();
  l.dp_replicate = kNodes, l.dp_shard = kRanks, l.sum_group = 0;
  return l;
}

Layout with_secondary_shards() {
  Layout l = nodes();
  l.reshard = "group", l.reshard_group = kRanks;
  return l;
}

TEST(QuantizedNodes, GiveTheSameBitsHoweverTheyAreGathered) {
  for (const char* precision : {"fp32", "bf16"}) {
    Problem p;
    p.precision = precision, p.micro_batch = 1;
    const std::vector<StepRecord> expected = run_layout(p, nodes(), 3);
    for (const Layout& l : {with_secondary_shards(), replicas()})
      EXPECT_EQ(first_difference(expected, run_layout(p, l, 3)), "") << l.name() << ' ' << precision;
  }
}

/// The node that a shard or state is on, by rank within the node and by name.
using Copies = std::map<std::string, std::vector<std::string>>;

void collect(const train::Rank& rank, Copies* copies) {
  const plan::Plan& plan = rank.plans().train;
  for (const plan::Role role :
       {plan::Role::kWeightShards, plan::Role::kMaster, plan::Role::kMoment1, plan::Role::kMoment2})
    for (int32_t block = 0; block < rank.layout().blocks(); ++block) {
      const plan::SlotId id = plan::find_state(plan, role, block);
      if (id < 0 || plan.slot(id).bytes == 0) continue;
      const plan::Slot& slot = plan.slot(id);
      (*copies)[slot.name + " of rank " + std::to_string(rank.number() % kRanks)].emplace_back(
          rank.arena()->data() + slot.offset, static_cast<size_t>(slot.bytes));
    }
}

TEST(QuantizedNodes, HaveEqualReplicas) {
  Problem p;
  p.precision = "bf16", p.micro_batch = 1;
  LayoutRun run(p, replicas());
  for (int step = 0; step < 5; ++step) run.step();
  Copies copies;
  std::mutex mutex;
  run.trainer().ranks().on_each([&](train::Rank& rank, int32_t) {
    const std::lock_guard lock(mutex);
    collect(rank, &copies);
  });
  EXPECT_GE(copies.size(), 12u * kRanks);
  for (const auto& [name, values] : copies) {
    EXPECT_EQ(values.size(), static_cast<size_t>(kNodes)) << name;
    for (const std::string& value : values) EXPECT_TRUE(value == values.front()) << name;
  }
}

TEST(QuantizedNodes, LoseAboutAsMuchAsExactRanks) {
  Problem p;
  p.micro_batch = 1;
  Layout exact = nodes();
  exact.quantized_weights = exact.quantized_gradients = "off";
  LayoutRun rounded(p, nodes()), full(p, exact);
  double largest = 0;
  for (int step = 0; step < 8; ++step) {
    const double loss = full.step().loss, other = rounded.step().loss;
    EXPECT_NEAR(other, loss, 0.01 * loss) << "step " << step;
    largest = std::max(largest, std::abs(other - loss));
  }
  EXPECT_GT(largest, 0) << "nothing was rounded";
}

/// A secondary shard is a copy on the device of weights whose shards are on disk.
TEST(SecondaryShards, OfWeightsOnDiskGiveTheBitsOfTheArena) {
  for (const char* records : {"off", "int8"})
    for (const char* precision : {"fp32", "bf16"})
      for (const int64_t prefetch : {0, 2}) {
        Problem p;
        p.precision = precision, p.layers = 3, p.tied = prefetch > 0;
        Layout l;
        l.dp_shard = 6, l.stage = 3, l.accumulation = 2, l.prefetch = prefetch;
        l.reshard = "group", l.reshard_group = 3, l.quantized_weights = records;
        const std::vector<StepRecord> expected = run_layout(p, l, 3);
        for (const char* state : {"off", "disk"}) {
          l.offload = R"({"parameters": "disk", "optimizer": ")" + std::string(state) + R"(", "folder": ")" +
                      ::testing::TempDir() + R"("})";
          EXPECT_EQ(first_difference(expected, run_layout(p, l, 3)), "")
              << l.name() << ' ' << precision << ' ' << l.offload;
        }
      }
}

}  // namespace quantized_nodes_test
}  // namespace hawser::testing
