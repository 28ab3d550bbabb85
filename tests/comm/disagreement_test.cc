// Tests that members that make different calls of hosts detect it within the call, and that the error names
// both sides. Devices compare calls later: device_calls_test.cc.
#include <gtest/gtest.h>

#include <functional>

#include "tests/comm/operations.h"
#include "tests/comm/worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace disagreement_test {

using comm::Reduction;
constexpr auto code = [](Code c) { return static_cast<int32_t>(c); };

class Disagreement : public ::testing::TestWithParam<WorldKind> {
 protected:
  std::vector<Caught> run(int32_t ranks, const RankFn& fn) const {
    std::vector<Caught> all;
    for (const auto& error : run_world(GetParam().make(ranks), fn, test_comm_options()))
      all.push_back(caught(error));
    return all;
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_P(Disagreement, CallsThatDifferAreFoundOnEveryRankAndBothSidesNamed) {
  struct Case {
    const char* what;
    std::function<comm::Work(comm::ProcessGroup&, bool odd, float* x)> call;
  };
  static comm::AllReducePiece pieces[2][4];
  const Case cases[] = {
      {"all_reduce",
       [](comm::ProcessGroup& g, bool odd, float* x) {
         comm::AllReducePiece& piece = pieces[0][g.rank()] = {x, x, odd ? 3 : 2};
         return g.all_reduce({&piece, 1}, Reduction{});
       }},
      {"BF16",
       [](comm::ProcessGroup& g, bool odd, float* x) {
         comm::AllReducePiece& piece = pieces[1][g.rank()] = {x, x, 2};
         return g.all_reduce({&piece, 1}, {.wire = odd ? DType::kBf16 : DType::kF32});
       }},
      {"barrier",
       [](comm::ProcessGroup& g, bool odd, float* x) { return odd ? g.barrier() : g.broadcast(x, 4, 0); }},
      {"from member 1",
       [](comm::ProcessGroup& g, bool odd, float* x) { return g.broadcast(x, 4, odd ? 1 : 0); }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const auto errors = run(4, [&](comm::RankComm& rank) {
      const auto group = world_group(rank);
      float x[4] = {};
      group->wait(c.call(*group, rank.rank() == 2, x));
      group->wait(group->barrier());  // the root of a broadcast is done before the other ranks compare
    });
    for (const Caught& error : errors) {
      EXPECT_EQ(error.code, code(Code::kInvalidArgument)) << error.message;
      EXPECT_TRUE(contains(error.message, "group 'world'")) << error.message;
      const auto named = [&](const char* rank) { return contains(error.message, rank); };
      EXPECT_TRUE(named("rank 2") && (named("rank 0") || named("rank 1") || named("rank 3")))
          << error.message;
      EXPECT_TRUE(contains(error.message, c.what)) << error.message;
    }
  }
}

TEST_P(Disagreement, SizesThatDifferBetweenTwoMembersAreFound) {
  auto errors = run(2, [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    char x[16] = {};
    group->wait(rank.rank() == 0 ? group->send(x, 8, 1) : group->recv(x, 9, 0));
    group->wait(group->barrier());  // a send may complete before its receiver compares sizes
  });
  for (const Caught& error : errors) {
    EXPECT_EQ(error.code, code(Code::kInvalidArgument)) << error.message;
    EXPECT_TRUE(contains(error.message, "rank 0 sends 8 bytes, rank 1 expects 9")) << error.message;
  }
  errors = run(3, [](comm::RankComm& rank) {
    const auto group = world_group(rank);
    char in[16] = {}, out[16] = {};
    const std::vector<int64_t> ones(3, 1), wrong = {1, 1, 2};
    group->wait(group->all_to_all_v(out, ones, in, rank.rank() == 1 ? wrong : ones));
    group->wait(group->barrier());
  });
  for (const Caught& error : errors) {
    EXPECT_EQ(error.code, code(Code::kInvalidArgument)) << error.message;
    EXPECT_TRUE(contains(error.message, "rank 1 sends 2 bytes, rank 2 expects 1")) << error.message;
  }
}

INSTANTIATE_TEST_SUITE_P(Transport, Disagreement, ::testing::ValuesIn(world_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace disagreement_test
}  // namespace hawser::testing
