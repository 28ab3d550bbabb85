// Tests ranks on axes: coordinates and groups of every mesh up to 64 ranks, against plain counting.
#include "engine/mesh/mesh.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/base/error.h"
#include "tests/mesh/layout_cases.h"

namespace hawser::mesh {
namespace mesh_test {

using enum Axis;
using Coordinates = std::vector<int64_t>;

/// Returns coordinates on these axes, rank by rank, by counting with the last axis fastest.
std::vector<Coordinates> counted(const DeviceMesh& mesh, const std::vector<Axis>& axes) {
  std::vector<Coordinates> all;
  Coordinates now(axes.size(), 0);
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    all.push_back(now);
    for (size_t a = axes.size(); a-- > 0;) {
      if (++now[a] < mesh.degree(axes[a])) break;
      now[a] = 0;
    }
  }
  return all;
}

void check_arrangement(const DeviceMesh& mesh, const std::vector<Axis>& axes) {
  const std::vector<Coordinates> places = counted(mesh, axes);
  ASSERT_EQ(std::set(places.begin(), places.end()).size(), places.size()) << "coordinates are a bijection";
  for (size_t rank = 0; rank < places.size(); ++rank) {
    for (size_t a = 0; a < axes.size(); ++a) {
      ASSERT_EQ(mesh.coordinate(static_cast<int64_t>(rank), axes[a]), places[rank][a]);
    }
  }
  for (unsigned subset = 0; subset < 1u << axes.size(); ++subset) {
    std::vector<Axis> chosen;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (subset >> a & 1) chosen.insert(chosen.begin(), axes[a]);  // in any order
    }
    std::map<Coordinates, std::vector<int64_t>> groups;  // keyed by the coordinates that the members share
    for (size_t rank = 0; rank < places.size(); ++rank) {
      Coordinates rest = places[rank];
      for (size_t a = 0; a < axes.size(); ++a) {
        if (subset >> a & 1) rest[a] = -1;
      }
      groups[rest].push_back(static_cast<int64_t>(rank));
    }
    for (const auto& [rest, members] : groups) {
      ASSERT_EQ(mesh.group(members.front(), chosen), members);
      ASSERT_EQ(mesh.group(members.back(), chosen), members);
    }
  }
}

TEST(DeviceMesh, GroupsPartitionEveryWorldUpTo64Ranks) {
  for (const Degrees& dense : dense_meshes()) {
    SCOPED_TRACE(text(dense));
    const DeviceMesh mesh(dense);
    ASSERT_EQ(mesh.world_size(), dense.pp * dense.dp_replicate * dense.dp_shard * dense.cp * dense.tp);
    check_arrangement(mesh, {kPp, kDpReplicate, kDpShard, kCp, kTp});
    if (HasFatalFailure()) return;
  }
}

TEST(DeviceMesh, ExpertGroupsPartitionEveryWorldUpTo64Ranks) {
  for (int64_t pp : {1, 2, 3}) {
    for (int64_t stage = 1; pp * stage <= kMostTestRanks; ++stage) {
      for (const Degrees& degrees : expert_meshes({pp, 1, stage, 1, 1, 1, 1})) {
        SCOPED_TRACE(text(degrees));
        const DeviceMesh mesh(degrees);
        ASSERT_EQ(mesh.degree(kEdp) * mesh.degree(kEp) * mesh.degree(kEtp), stage);
        check_arrangement(mesh, {kPp, kEdp, kEp, kEtp});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(DeviceMesh, DataParallelRanksShareTheBatchReplicaByReplica) {
  const DeviceMesh mesh({2, 3, 4, 1, 2, 1, 1});
  EXPECT_EQ(mesh.dp_size(), 12);
  std::map<int64_t, int64_t> ranks_of;
  for (int64_t rank = 0; rank < mesh.world_size(); ++rank) {
    EXPECT_EQ(mesh.dp_rank(rank), mesh.coordinate(rank, kDpReplicate) * 4 + mesh.coordinate(rank, kDpShard));
    ++ranks_of[mesh.dp_rank(rank)];
  }
  EXPECT_EQ(ranks_of.size(), 12u);
  for (const auto& [dp_rank, ranks] : ranks_of) EXPECT_EQ(ranks, 4) << dp_rank;
}

TEST(DeviceMesh, OneRankIsAMeshToo) {
  const DeviceMesh mesh;
  EXPECT_EQ(mesh.world_size(), 1);
  EXPECT_EQ(mesh.group(0, {kDpReplicate, kTp}), (std::vector<int64_t>{0}));
}

TEST(DeviceMesh, RefusesWhatDoesNotFit) {
  const auto says = [](auto&& make) -> std::string {
    try {
      make();
    } catch (const Error& error) {
      return error.code() == Code::kInvalidArgument ? error.message() : "another code";
    }
    return "nothing";
  };
  EXPECT_EQ(says([] {
              DeviceMesh({1, 1, 0, 1, 1, 1, 1});
            }),
            "mesh: the degree of dp_shard is 0; use 1 to 2147483647");
  EXPECT_NE(says([] {
              DeviceMesh({1, 65536, 65536, 1, 1, 1, 1});
            }).find("more than 2147483647 ranks"),
            std::string::npos);
  EXPECT_NE(says([] {
              DeviceMesh({2, 1, 6, 1, 1, 4, 1});
            }).find("ep 4 x etp 1 do not divide the 6 ranks"),
            std::string::npos);
  const DeviceMesh mesh({1, 1, 4, 1, 1, 2, 1});
  EXPECT_NE(says([&] { mesh.group(4, {kTp}); }).find("no rank 4 in a world of 4"), std::string::npos);
  EXPECT_NE(says([&] {
              mesh.group(0, {kEp, kDpShard});
            }).find("dp_shard and ep arrange the same ranks"),
            std::string::npos);
}

}  // namespace mesh_test
}  // namespace hawser::mesh
