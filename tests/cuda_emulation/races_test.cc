// No kernel has a race, in any row of the op-case table; and the race detector finds the races that are
// planted for it.
#include <gtest/gtest.h>

#include "kernels/cuda/sdpa.h"
#include "kernels/cuda/table.h"
#include "tests/cuda_emulation/emulated_stream.h"
#include "tests/cuda_emulation/planted_mistakes.h"
#include "tests/harness/run_op_case.h"

namespace hawser::testing {
namespace races_test {

using cuda_emulation::Order;

class WatchedOpCases : public ::testing::TestWithParam<std::string> {};

TEST_P(WatchedOpCases, HaveNoRaces) {
  for (const OpCase* c : emulated_cases_of(GetParam())) {
    SCOPED_TRACE(c->op + "/" + c->name);
    cuda_emulation::run_in_order(
        Order::kAscending, [&](Stream& stream) { run_fast(*c, kernels::cuda::cuda_kernels(), stream); });
  }
}

INSTANTIATE_TEST_SUITE_P(Table, WatchedOpCases, ::testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param; });

/// The kernels before and after a library's attention are in no row.
TEST(WatchedDocuments, AreFoundWithoutRaces) {
  kernels::cuda::SdpaShape shape;
  shape.batch = 2, shape.seq = 1500, shape.heads = 3, shape.documents = 64;
  std::vector<int32_t> kv_begin(3000);
  for (int32_t row = 0; row < 3000; ++row) kv_begin[static_cast<size_t>(row)] = row % 1500 / 100 * 100;
  std::vector<char> memory(static_cast<size_t>(kernels::cuda::sdpa_workspace(shape).table_bytes));
  std::vector<float> lse(9000), stats(9000);
  kernels::cuda::DocumentTable table;
  cuda_emulation::EmulatedStream stream;
  fill_document_table(shape, kv_begin.data(), memory.data(), &table, stream);
  stats_to_lse(shape, lse.data(), stats.data(), stream);
  lse_to_stats(shape, stats.data(), lse.data(), stream);
  EXPECT_EQ(table.rows[29], 100);
  EXPECT_EQ(table.rows[30], 0);
  EXPECT_TRUE(cuda_emulation::take_findings().empty());
}

struct Race {
  const char* name;
  cuda_emulation::Planted run;
  const char* finding;  ///< a part of the finding; null: the kernel is correct
};

void PrintTo(const Race& race, std::ostream* out) { *out << race.name; }

class PlantedRaces : public ::testing::TestWithParam<Race> {};

TEST_P(PlantedRaces, AreFoundInEveryOrder) {
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
    std::vector<float> out(cuda_emulation::kPlantedFloats);
    cuda_emulation::EmulatedStream stream;
    set_order(order);
    GetParam().run(out.data(), stream);
    set_order(Order::kAscending);
    const std::vector<std::string> found = cuda_emulation::take_findings();
    if (GetParam().finding == nullptr) {
      EXPECT_TRUE(found.empty()) << found.front();
      continue;
    }
    ASSERT_FALSE(found.empty());
    bool named = false;
    for (const std::string& finding : found)
      named = named || finding.find(GetParam().finding) != std::string::npos;
    EXPECT_TRUE(named) << found.front();
  }
}

const Race kRaces[] = {
    {"ReversedWithBarrier", cuda_emulation::reversed_with_barrier, nullptr},
    {"ReversedWithoutBarrier", cuda_emulation::reversed_without_barrier, "race: "},
    {"ReusedWithoutBarrier", cuda_emulation::reused_without_barrier,
     "race: write to what was read from byte"},
    {"WarpReversedWithWarpBarrier", cuda_emulation::warp_reversed_with_warp_barrier, nullptr},
    {"BlockReversedWithWarpBarrier", cuda_emulation::block_reversed_with_warp_barrier, "race: "},
    {"TwoWriters", cuda_emulation::two_writers, "race: second write to device memory"},
    {"HalvesOfAWord", cuda_emulation::halves_of_a_word, nullptr},
    {"BytesOfAWord", cuda_emulation::bytes_of_a_word, nullptr},
    {"TwoWritersOfAByte", cuda_emulation::two_writers_of_a_byte, "race: second write to device memory"},
    {"NeighbourBlockRead", cuda_emulation::neighbour_block_read, "of another block"},
    {"MatricesWithWarpBarrier", cuda_emulation::matrices_with_warp_barrier, nullptr},
    {"MatricesWithoutBarrier", cuda_emulation::matrices_without_barrier,
     "race: read of what was written to byte"},
    {"BeyondSharedMemory", cuda_emulation::beyond_shared_memory, "shared memory beyond"},
};

INSTANTIATE_TEST_SUITE_P(Detector, PlantedRaces, ::testing::ValuesIn(kRaces),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace races_test
}  // namespace hawser::testing
