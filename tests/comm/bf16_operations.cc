// Checks sums of addends and destinations that are bf16 in memory, against the serial reference.
#include <gtest/gtest.h>

#include "tests/comm/operations.h"
#include "tests/comm/serial_reference.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

using comm::Reduction;
using Narrow = std::vector<uint16_t>;

constexpr int64_t kSizes[] = {17, 9001};  // the second exceeds every scratch buffer

Narrow narrow_values(int64_t n, int32_t member) {
  Narrow values;
  for (const float x : member_values(n, member, 5)) values.push_back(to_bf16(x));
  return values;
}

/// Returns the expected element of a destination that contained `held`, from all members' addends.
uint16_t expected(const std::vector<float>& addends, const Reduction& r, uint16_t held) {
  const float sum = reference_sum(addends, r);
  return to_bf16(r.accumulate ? from_bf16(held) + sum : sum);
}

/// Checks sums of full bf16 arrays of all members into bf16 shards: in separate memory, or in position within
/// the full array.
void check_scatter(comm::ProcessGroup& group, const std::vector<Narrow>& all, bool accumulate, bool in_place,
                   int32_t sum_group) {
  const int32_t me = group.rank();
  const Reduction r{.wire = DType::kBf16,
                    .round_to = DType::kBf16,
                    .sum_group = sum_group,
                    .accumulate = accumulate,
                    .in_type = DType::kBf16,
                    .out_type = DType::kBf16};
  Narrow full = all[static_cast<size_t>(me)];
  const int64_t size = static_cast<int64_t>(full.size()) / group.size();
  Narrow shard = narrow_values(size, 77);
  uint16_t* const out = in_place ? full.data() + me * size : shard.data();
  const Narrow held(out, out + size);
  const comm::ReducePiece piece = {out, full.data(), size};
  group.wait(group.reduce_scatter({&piece, 1}, r));
  std::vector<float> addends(all.size());
  for (int64_t i = 0; i < size; ++i) {
    for (size_t m = 0; m < all.size(); ++m)
      addends[m] = from_bf16(all[m][static_cast<size_t>(me * size + i)]);
    ASSERT_EQ(out[i], expected(addends, r, held[static_cast<size_t>(i)]))
        << "element " << i << " of " << size << (in_place ? " in place" : "");
  }
}

/// Checks f32 addends with bf16 sums, as used by replicas of a shard.
void check_all_reduce_to_bf16(comm::ProcessGroup& group, int64_t size, bool accumulate) {
  const Reduction r{.accumulate = accumulate, .out_type = DType::kBf16};
  std::vector<std::vector<float>> all;
  for (int32_t m = 0; m < group.size(); ++m) all.push_back(member_values(size, m, 6));
  Narrow out = narrow_values(size, 78);
  const Narrow held = out;
  const comm::AllReducePiece piece = {out.data(), all[static_cast<size_t>(group.rank())].data(), size};
  group.wait(group.all_reduce({&piece, 1}, r));
  std::vector<float> addends(all.size());
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t m = 0; m < all.size(); ++m) addends[m] = all[m][i];
    ASSERT_EQ(out[i], expected(addends, r, held[i])) << i;
  }
}

}  // namespace

void check_sums_of_bf16(comm::RankComm& rank) {
  const auto group = world_group(rank);
  for (const int64_t size : kSizes) {
    std::vector<Narrow> all;
    for (int32_t m = 0; m < group->size(); ++m) all.push_back(narrow_values(group->size() * size, m));
    for (const bool accumulate : {false, true}) {
      for (const bool in_place : {false, true}) {
        check_scatter(*group, all, accumulate, in_place, 0);
        if (group->size() % 2 == 0) check_scatter(*group, all, accumulate, in_place, 2);
      }
      check_all_reduce_to_bf16(*group, size, accumulate);
    }
  }
  const uint16_t x = 0;
  uint16_t y = 0;
  const comm::ReducePiece piece = {&y, &x, 0};
  EXPECT_THROW(group->reduce_scatter({&piece, 1}, {.in_type = DType::kBf16}), Error)
      << "bf16 addends cannot travel as f32";
}

}  // namespace hawser::testing
