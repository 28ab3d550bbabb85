// Random calls over overlapping groups, with several in flight, against the serial reference. Each call's
// operation, group and sizes depend only on the seed, so every rank can compute those of all ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/comm/operations.h"
#include "tests/comm/serial_reference.h"

namespace hawser::testing {
namespace {

struct Flight {
  comm::ProcessGroup* group = nullptr;
  comm::Work work;
  std::vector<float> in, out, expected;
  comm::AllReducePiece all_reduce;
  comm::ReducePiece reduce;
  comm::GatherPiece gather;

  void finish() {
    group->wait(work);
    EXPECT_TRUE(same_bits(out, expected)) << "a call of group " << group->name();
  }
};

/// Returns the sums of elements [begin, begin + count) of the members' n values.
std::vector<float> sums(const comm::ProcessGroup& group, int64_t n, uint32_t seed, int64_t begin,
                        int64_t count, const comm::Reduction& reduction) {
  std::vector<std::vector<float>> in;
  for (const int32_t r : group.members()) {
    const std::vector<float> values = member_values(n, r, seed);
    in.emplace_back(values.begin() + begin, values.begin() + begin + count);
  }
  return reference_sums(in, reduction);
}

void start(Flight& f, int32_t rank, uint32_t operation, int64_t size, uint32_t seed,
           const comm::Reduction& reduction) {
  const int32_t n = f.group->size(), me = f.group->rank();
  const auto& members = f.group->members();
  if (operation == 0) {
    f.in = member_values(size, rank, seed);
    f.out.assign(static_cast<size_t>(size), NAN);
    f.expected = sums(*f.group, size, seed, 0, size, reduction);
    f.all_reduce = {f.out.data(), f.in.data(), size};
    f.work = f.group->all_reduce({&f.all_reduce, 1}, reduction);
  } else if (operation == 1) {
    f.in = member_values(size * n, rank, seed);
    f.out.assign(static_cast<size_t>(size), NAN);
    f.expected = sums(*f.group, size * n, seed, me * size, size, reduction);
    f.reduce = {f.out.data(), f.in.data(), size};
    f.work = f.group->reduce_scatter({&f.reduce, 1}, reduction);
  } else if (operation == 2) {
    f.in = member_values(size, rank, seed);
    f.out.assign(static_cast<size_t>(size * n), NAN);
    f.expected.clear();
    for (const int32_t r : members) {
      const auto part = member_values(size, r, seed);
      f.expected.insert(f.expected.end(), part.begin(), part.end());
    }
    f.gather = {f.out.data(), f.in.data(), size};
    f.work = f.group->all_gather({&f.gather, 1}, DType::kF32);
  } else {
    const int32_t root = static_cast<int32_t>(seed) % n;
    f.out = member_values(size, rank, seed);
    f.expected = member_values(size, members[root], seed);
    f.work = f.group->broadcast(f.out.data(), size * 4, root);
  }
}

}  // namespace

void check_random_calls(comm::RankComm& rank, uint32_t seed, int32_t calls) {
  std::mt19937 random(seed);
  const int32_t world = rank.world_size();
  std::vector<std::unique_ptr<comm::ProcessGroup>> groups;
  for (int32_t g = 0; g < 5; ++g) {
    std::vector<int32_t> members;
    for (int32_t r = 0; r < world; ++r) {
      if (g == 0 || random() % 2 == 0) members.push_back(r);
    }
    const bool mine = std::find(members.begin(), members.end(), rank.rank()) != members.end();
    groups.push_back(mine ? rank.make_group(members, "group " + std::to_string(g)) : nullptr);
  }
  std::vector<Flight> flights(4);
  for (int32_t c = 0; c < calls; ++c) {
    const uint32_t g = random() % groups.size(), operation = random() % 4, data = random() % 1000;
    const int64_t size = random() % 4 == 0 ? random() % 3 : random() % 700;
    comm::Reduction reduction;
    constexpr DType kWires[] = {DType::kF32, DType::kBf16, DType::kI8Block, DType::kI4Block};
    reduction.wire = kWires[random() % 4];
    reduction.round_to = random() % 2 == 0 ? DType::kF32 : DType::kBf16;
    if (groups[g] == nullptr) continue;
    Flight& flight = flights[static_cast<size_t>(c) % flights.size()];
    if (flight.group != nullptr) flight.finish();
    flight.group = groups[g].get();
    start(flight, rank.rank(), operation, size, data, reduction);
  }
  for (Flight& flight : flights) {
    if (flight.group != nullptr) flight.finish();
  }
}

}  // namespace hawser::testing
