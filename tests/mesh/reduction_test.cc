// Tests reductions: the steps of every pair of layouts, simulated with sets of addends instead of numbers.
#include "engine/mesh/reduction.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/base/error.h"
#include "tests/mesh/layout_cases.h"

namespace hawser::mesh {
namespace reduction_test {

using enum Axis;
using Kind = ReduceStep::Kind;

struct Pair {
  std::string name;
  Layout gradient, wanted;
};

std::vector<Pair> pairs(const DeviceMesh& mesh) {
  const std::vector<SubAxis> data = {kDpReplicate, kDpShard, kCp};
  std::vector<Pair> all = {
      {"ddp", {{partial(data)}, {}}, {}},
      {"zero", {{partial(data)}, {}}, {{flat({kDpShard, kCp}, 0, 500)}, {}}},
      {"zero over all", {{partial(data)}, {}}, {{flat(data, 0, 500)}, {}}},
      {"tp column",
       {{partial(data), shard({kTp}, 0)}, {}},
       {{shard({kTp}, 0), flat({kDpShard, kCp}, 0, 500)}, {}}},
      {"sp norm", {{partial({kDpReplicate, kDpShard, kCp, kTp})}, {}}, {{flat({kDpShard}, 0, 500)}, {}}},
      {"tied over stages", {{partial({kPp}), partial(data)}, {}}, {{flat({kDpShard}, 0, 500)}, {}}},
      {"scatter rows over tp", {{partial({kDpShard, kTp})}, {}}, {{shard({kTp}, 0)}, {}}},
      {"some of a cut", {{partial({kDpShard})}, {}}, {{flat({kDpShard, kCp}, 0, 500)}, {}}},
      {"nothing", {{shard({kTp}, 0)}, {}}, {{shard({kTp}, 0)}, {}}},
      {"take a part", {}, {{flat({kDpShard}, 0, 500)}, {}}},
  };
  for (int64_t outer = 1; outer <= mesh.degree(kTp); ++outer) {
    if (mesh.degree(kTp) % outer != 0) continue;
    all.push_back(
        {"kv heads",
         {{partial(data), shard({outer_half(kTp, outer)}, 0, 4), partial({inner_half(kTp, outer)})}, {}},
         {{shard({outer_half(kTp, outer)}, 0, 4), flat({kDpShard, kCp}, 0, 500)}, {}}});
    all.push_back(
        {"whole against halves", {{partial({kTp})}, {}}, {{shard({outer_half(kTp, outer)}, 0, 4)}, {}}});
  }
  return all;
}

bool is_partial_on(const DeviceMesh& mesh, const Layout& gradient, int64_t a, int64_t b) {
  // True if a and b differ in addends only: moving a along every Partial axis can reach b.
  for (const Entry& entry : gradient.entries) {
    if (entry.placement != Placement::kPartial) continue;
    for (const SubAxis& axis : entry.axes) a = at(mesh, a, axis, coordinate(mesh, b, axis));
  }
  return a == b;
}

/// Simulates the steps. Bit r of a rank's set means that its values include rank r's addend.
void check_pair(const DeviceMesh& mesh, const Pair& pair) {
  const size_t world = static_cast<size_t>(mesh.world_size());
  std::vector<uint64_t> holds(world);
  for (size_t r = 0; r < world; ++r) holds[r] = uint64_t{1} << r;
  for (const ReduceStep& step : reduction(mesh, pair.gradient, pair.wanted)) {
    ASSERT_GT(degree(mesh, step.axes), 1) << "a step over one rank";
    std::vector<uint64_t> after(world);
    for (size_t r = 0; r < world; ++r) {
      const std::vector<int64_t> members = group(mesh, static_cast<int64_t>(r), step.axes);
      ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
      for (const int64_t member : members) {
        const uint64_t more = holds[static_cast<size_t>(member)];
        ASSERT_EQ(after[r] & more, 0u) << "an addend is summed twice";
        after[r] |= more;
      }
    }
    holds = after;
  }
  for (size_t r = 0; r < world; ++r) {
    for (size_t other = 0; other < world; ++other) {
      const bool wanted =
          is_partial_on(mesh, pair.gradient, static_cast<int64_t>(other), static_cast<int64_t>(r));
      ASSERT_EQ(holds[r] >> other & 1, wanted ? 1u : 0u) << "rank " << r << ", addend of " << other;
    }
  }
}

TEST(Reduction, SumsEveryAddendOnceOnEveryMesh) {
  size_t turn = 0;
  for (const Degrees& degrees : dense_meshes()) {
    const DeviceMesh mesh(degrees);
    const std::vector<Pair> all = pairs(mesh);
    // Small worlds test all pairs, large ones a sample.
    const size_t step = mesh.world_size() <= 16 ? 1 : 3;
    for (size_t i = turn++ % step; i < all.size(); i += step) {
      SCOPED_TRACE(text(degrees) + ": " + all[i].name);
      check_pair(mesh, all[i]);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Reduction, ChoosesTheCollectivesOfEachStrategy) {
  const DeviceMesh mesh({2, 2, 3, 2, 4, 1, 1});
  const Layout gradient{{partial({kDpReplicate, kDpShard, kCp})}, {}};
  const auto steps = [&](const Layout& from, const Layout& to) { return reduction(mesh, from, to); };
  const ReduceStep all{Kind::kSum, {kDpReplicate, kDpShard, kCp}};
  const ReduceStep scatter{Kind::kReduceScatter, {kDpShard, kCp}}, replicas{Kind::kSum, {kDpReplicate}};
  EXPECT_EQ(steps(gradient, {}), std::vector{all});
  EXPECT_EQ(steps(gradient, {{flat({kDpShard, kCp}, 0, 100)}, {}}), (std::vector{scatter, replicas}));
  const Layout tied{{partial({kPp}), partial({kDpReplicate, kDpShard, kCp}), partial({kTp})}, {}};
  EXPECT_EQ(steps(tied, {{flat({kDpShard, kCp}, 0, 100)}, {}}),
            (std::vector<ReduceStep>{{Kind::kSum, {kPp}}, {Kind::kSum, {kTp}}, scatter, replicas}));
  EXPECT_TRUE(steps({}, {{flat({kDpShard}, 0, 100)}, {}}).empty());
  EXPECT_TRUE(reduction(DeviceMesh(), gradient, {{flat({kDpShard}, 0, 100)}, {}}).empty());
}

TEST(Reduction, RefusesWhatNoSumCanDo) {
  const DeviceMesh mesh({1, 2, 2, 1, 4, 1, 1});
  const auto says = [&](const Layout& from, const Layout& to) -> std::string {
    try {
      reduction(mesh, from, to);
    } catch (const Error& error) {
      return error.message();
    }
    return "nothing";
  };
  EXPECT_NE(
      says({{shard({kTp}, 0)}, {}}, {}).find("has Shard(dim 0) over tp, but the wanted result does not"),
      std::string::npos);
  EXPECT_NE(says({{shard({kTp}, 0)}, {}}, {{shard({kTp}, 1)}, {}}).find("the wanted result does not"),
            std::string::npos);
  EXPECT_NE(says({}, {{partial({kTp})}, {}}).find("not Partial"), std::string::npos);
  EXPECT_NE(says({{}, {0}}, {}).find("different stages"), std::string::npos);
  EXPECT_NE(
      says({{partial({inner_half(kTp, 2)})}, {}}, {{shard({outer_half(kTp, 4)}, 0)}, {}}).find("one way"),
      std::string::npos);
}

}  // namespace reduction_test
}  // namespace hawser::mesh
