// Checks sums of addends in records of integers that are larger than any staging buffer, so that chunks
// divide them, against the serial reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/comm/operations.h"
#include "tests/comm/serial_reference.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

/// Numbers of other magnitudes in each record.
std::vector<float> values_of(int64_t n, int32_t member) {
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto random = static_cast<uint32_t>(i * 7 + member + 1) * 2654435761u;
    values[static_cast<size_t>(i)] =
        std::ldexp(static_cast<float>(static_cast<int32_t>(random)), static_cast<int>(i / 64 % 9) - 40);
  }
  return values;
}

std::vector<float> slice(const std::vector<float>& x, int64_t begin, int64_t count) {
  return {x.begin() + begin, x.begin() + begin + count};
}

}  // namespace

void check_large_sums_in_records(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int32_t members = group->size(), me = group->rank();
  const int64_t shard = 400'001, n = members * shard;
  std::vector<std::vector<float>> all;
  for (int32_t m = 0; m < members; ++m) all.push_back(values_of(n, m));
  std::vector<std::vector<float>> mine;
  for (const std::vector<float>& x : all) mine.push_back(slice(x, me * shard, shard));
  for (const DType type : {DType::kI8Block, DType::kI4Block})
    for (const int32_t run : {0, 2}) {
      SCOPED_TRACE(::testing::Message() << dtype_name(type) << " in runs of " << run);
      const comm::Reduction r = {.wire = type, .sum_group = run};
      std::vector<float> in = all[static_cast<size_t>(me)], out(static_cast<size_t>(shard));
      const comm::ReducePiece scatter = {out.data(), in.data(), shard};
      group->wait(group->reduce_scatter({&scatter, 1}, r));
      EXPECT_TRUE(same_bits(out, reference_sums(mine, r)));
      const comm::AllReducePiece piece = {in.data(), in.data(), n};
      group->wait(group->all_reduce({&piece, 1}, r));
      EXPECT_TRUE(same_bits(in, reference_sums(all, r)));
    }
  const comm::ReducePiece none = {nullptr, nullptr, 0};
  for (const comm::Reduction& refused :
       {comm::Reduction{.wire = DType::kI8Block, .tree = true}, comm::Reduction{.round_to = DType::kI8Block},
        comm::Reduction{.wire = DType::kNf4},
        comm::Reduction{.wire = DType::kI4Block, .in_type = DType::kBf16}})
    EXPECT_THROW(group->reduce_scatter({&none, 1}, refused), Error) << dtype_name(refused.wire);
}

}  // namespace hawser::testing
