#include "tests/comm/operations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/comm/serial_reference.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace {

using comm::AllReducePiece;
using comm::GatherPiece;
using comm::ProcessGroup;
using comm::ReducePiece;
using comm::Reduction;

constexpr int64_t kSizes[] = {0, 1, 3, 17, 64, 1003};

/// Returns every reduction that a group of this size allows.
std::vector<Reduction> reductions(int32_t members) {
  std::vector<Reduction> all;
  for (const DType wire : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const DType round_to : {DType::kF32, DType::kBf16, DType::kF16}) {
      if (wire == DType::kF32 && round_to != DType::kF32 && round_to != DType::kBf16) continue;
      all.push_back({.wire = wire, .round_to = round_to});
    }
  }
  for (int32_t group = 1; group < members; ++group) {
    if (members % group != 0) continue;
    all.push_back({.sum_group = group});
    all.push_back({.wire = DType::kBf16, .round_to = DType::kBf16, .sum_group = group});
    for (const DType records : {DType::kI8Block, DType::kI4Block})
      all.push_back({.wire = records, .sum_group = group});
  }
  for (const DType records : {DType::kI8Block, DType::kI4Block})
    for (const DType round_to : {DType::kF32, DType::kBf16})
      all.push_back({.wire = records, .round_to = round_to});
  if ((members & (members - 1)) == 0) all.push_back({.tree = true});
  for (size_t i = 0, n = all.size(); i < n; ++i) {
    all.push_back(all[i]);
    all.back().accumulate = true;
  }
  return all;
}

/// All members' arrays of n elements, and their sums.
class Inputs {
 public:
  Inputs(int32_t members, int64_t n) {
    for (int32_t m = 0; m < members; ++m) in_.push_back(member_values(n, m, static_cast<uint32_t>(n)));
  }
  const std::vector<float>& of(int32_t member) const { return in_[static_cast<size_t>(member)]; }
  std::vector<float> sums(int64_t begin, int64_t count, const Reduction& reduction) const {
    std::vector<std::vector<float>> parts;
    for (const std::vector<float>& in : in_)
      parts.emplace_back(in.begin() + begin, in.begin() + begin + count);
    return reference_sums(parts, reduction);
  }

 private:
  std::vector<std::vector<float>> in_;
};

/// Returns one Inputs for each of kSizes, times `factor`.
std::vector<Inputs> inputs_of_all_sizes(int32_t members, int64_t factor) {
  std::vector<Inputs> all;
  for (const int64_t size : kSizes) all.emplace_back(members, size * factor);
  return all;
}

std::string named(const Reduction& r) {
  return std::string(dtype_name(r.wire)) + " to " + dtype_name(r.round_to) + " group " +
         std::to_string(r.sum_group) + (r.tree ? " tree" : "") + (r.accumulate ? " accumulate" : "");
}

}  // namespace

void check_all_gather(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int32_t n = group->size(), me = group->rank();
  for (const bool in_place : {false, true}) {
    std::vector<std::vector<float>> full, shard;
    std::vector<GatherPiece> pieces;
    for (const int64_t size : kSizes) {
      full.emplace_back(static_cast<size_t>(size * n), NAN);
      shard.push_back(member_values(size, me, static_cast<uint32_t>(size)));
    }
    for (size_t i = 0; i < full.size(); ++i) {
      const auto size = static_cast<int64_t>(shard[i].size());
      float* place = full[i].data() + me * size;
      std::copy(shard[i].begin(), shard[i].end(), in_place ? place : shard[i].data());
      pieces.push_back({full[i].data(), in_place ? place : shard[i].data(), size});
    }
    group->wait(group->all_gather(pieces, DType::kF32));
    for (size_t i = 0; i < full.size(); ++i) {
      std::vector<float> expected;
      for (int32_t m = 0; m < n; ++m) {
        const auto part = member_values(kSizes[i], m, static_cast<uint32_t>(kSizes[i]));
        expected.insert(expected.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bits(full[i], expected)) << kSizes[i] << " elements, in place " << in_place;
    }
  }
}

void check_reduce_scatter(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int32_t n = group->size(), me = group->rank();
  const std::vector<Inputs> inputs = inputs_of_all_sizes(n, n);
  for (const Reduction& reduction : reductions(n)) {
    for (const bool in_place : {false, true}) {
      std::vector<std::vector<float>> full, shard;
      for (size_t i = 0; i < inputs.size(); ++i) {
        full.push_back(inputs[i].of(me));
        shard.emplace_back(static_cast<size_t>(kSizes[i]), 0.5f);
      }
      std::vector<std::vector<float>> held = shard;
      std::vector<ReducePiece> pieces;
      for (size_t i = 0; i < full.size(); ++i) {
        float* place = full[i].data() + me * kSizes[i];
        if (in_place) held[i].assign(place, place + kSizes[i]);
        pieces.push_back({in_place ? place : shard[i].data(), full[i].data(), kSizes[i]});
      }
      group->wait(group->reduce_scatter(pieces, reduction));
      for (size_t i = 0; i < full.size(); ++i) {
        const int64_t size = kSizes[i];
        std::vector<float> expected = inputs[i].sums(me * size, size, reduction);
        for (int64_t k = 0; reduction.accumulate && k < size; ++k) expected[k] = held[i][k] + expected[k];
        const auto* const sums = static_cast<const float*>(pieces[i].shard);
        const std::vector<float> got(sums, sums + size);
        EXPECT_TRUE(same_bits(got, expected)) << size << " elements, " << named(reduction);
      }
    }
  }
}

void check_all_reduce(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int32_t n = group->size(), me = group->rank();
  const std::vector<Inputs> inputs = inputs_of_all_sizes(n, 1);
  for (const Reduction& reduction : reductions(n)) {
    for (const bool in_place : {false, true}) {
      std::vector<std::vector<float>> in, out;
      for (size_t i = 0; i < inputs.size(); ++i) {
        in.push_back(inputs[i].of(me));
        out.emplace_back(static_cast<size_t>(kSizes[i]), 0.25f);
      }
      const std::vector<std::vector<float>> held = in_place ? in : out;
      std::vector<AllReducePiece> pieces;
      for (size_t i = 0; i < in.size(); ++i) {
        pieces.push_back({in_place ? in[i].data() : out[i].data(), in[i].data(), kSizes[i]});
      }
      group->wait(group->all_reduce(pieces, reduction));
      for (size_t i = 0; i < in.size(); ++i) {
        auto expected = inputs[i].sums(0, kSizes[i], reduction);
        for (int64_t k = 0; reduction.accumulate && k < kSizes[i]; ++k)
          expected[k] = held[i][k] + expected[k];
        EXPECT_TRUE(same_bits(in_place ? in[i] : out[i], expected)) << kSizes[i] << ", " << named(reduction);
      }
    }
  }
}

void check_all_reduce_i64(comm::RankComm& rank) {
  const auto group = world_group(rank);
  for (const int64_t count : {0, 1, 5, 100, 3000}) {
    std::vector<int64_t> data(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) data[i] = (int64_t{1} << 53) + i * (group->rank() + 1);
    group->wait(group->all_reduce_i64(data.data(), count));
    const int64_t n = group->size();
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(data[i], n * (int64_t{1} << 53) + i * n * (n + 1) / 2);
  }
}

void check_all_to_all(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int32_t n = group->size(), me = group->rank();
  for (const int64_t bytes : {0, 1, 7, 1001}) {
    std::vector<uint8_t> in(static_cast<size_t>(bytes * n)), out(in.size(), 0xee);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 31 + me * 7);
    group->wait(group->all_to_all(out.data(), in.data(), bytes));
    for (int32_t s = 0; s < n; ++s) {
      for (int64_t i = 0; i < bytes; ++i) {
        ASSERT_EQ(out[s * bytes + i], static_cast<uint8_t>((me * bytes + i) * 31 + s * 7));
      }
    }
  }
}

void check_all_to_all_v(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int32_t n = group->size(), me = group->rank();
  const auto size_of = [](int32_t from, int32_t to) { return int64_t{(from * 5 + to * 3) % 7 * 100 + from}; };
  std::vector<int64_t> in_bytes, out_bytes;
  std::vector<uint8_t> in, expected;
  for (int32_t m = 0; m < n; ++m) {
    in_bytes.push_back(size_of(me, m));
    out_bytes.push_back(size_of(m, me));
    in.insert(in.end(), static_cast<size_t>(size_of(me, m)), static_cast<uint8_t>(me * 16 + m));
    expected.insert(expected.end(), static_cast<size_t>(size_of(m, me)), static_cast<uint8_t>(m * 16 + me));
  }
  std::vector<uint8_t> out(expected.size(), 0xee);
  group->wait(group->all_to_all_v(out.data(), out_bytes, in.data(), in_bytes));
  EXPECT_EQ(out, expected);
}

void check_broadcast(comm::RankComm& rank) {
  const auto group = world_group(rank);
  for (int32_t root = 0; root < group->size(); ++root) {
    for (const int64_t n : {0, 1, 5000}) {
      std::vector<float> data = member_values(n, group->rank(), 5);
      group->wait(group->broadcast(data.data(), n * 4, root));
      EXPECT_TRUE(same_bits(data, member_values(n, root, 5))) << "root " << root;
    }
  }
}

void check_send_recv(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int32_t n = group->size(), me = group->rank();
  if (n == 1) return;
  for (const int64_t size : {0, 1, 9001}) {
    const std::vector<float> mine = member_values(size, me, 9);
    std::vector<float> first(static_cast<size_t>(size)), second(first);
    const int32_t next = (me + 1) % n, previous = (me + n - 1) % n;
    comm::Work work;
    if (me == 0) {  // one member must receive first
      group->recv(first.data(), size * 4, previous);
      group->recv(second.data(), size * 4, previous);
    }
    group->send(mine.data(), size * 4, next);
    work = group->send(mine.data(), size * 4, next);
    if (me != 0) {
      group->recv(first.data(), size * 4, previous);
      work = group->recv(second.data(), size * 4, previous);
    }
    group->wait(work);
    EXPECT_TRUE(same_bits(first, member_values(size, previous, 9)));
    EXPECT_TRUE(same_bits(second, first));
  }
}

/// Checks about 3 million elements, more than any staging buffer: in one row, and in two hops if the number
/// of members allows it.
void check_large(comm::RankComm& rank) {
  const auto group = world_group(rank);
  const int64_t n = 3'000'001;
  for (const int32_t run : {0, 2}) {
    if (run > 0 && (group->size() <= run || group->size() % run != 0)) continue;
    std::vector<float> data(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) data[i] = static_cast<float>((i * 7 + group->rank()) % 1024);
    const AllReducePiece piece = {data.data(), data.data(), n};
    group->wait(group->all_reduce({&piece, 1}, {.sum_group = run}));
    for (int64_t i = 0; i < n; ++i) {
      float expected = 0;
      for (int32_t m = 0; m < group->size(); ++m) expected += static_cast<float>((i * 7 + m) % 1024);
      ASSERT_EQ(data[i], expected) << i << " in runs of " << run;
    }
  }
}

void check_agreements(comm::RankComm& rank) {
  std::vector<int32_t> everyone(static_cast<size_t>(rank.world_size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto group = rank.make_group(everyone, "agreements", {}, comm::LinkTopology::kTree);
  const int32_t n = group->size(), me = group->rank();
  for (const int64_t shard : {0, 1, 700}) {
    std::vector<float> full(static_cast<size_t>(n * shard)), expected;
    const std::vector<float> mine = member_values(shard, me, 3);
    for (int32_t m = 0; m < n; ++m) {
      const std::vector<float> theirs = member_values(shard, m, 3);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    const GatherPiece piece{full.data(), mine.data(), shard};
    group->wait(group->all_gather({&piece, 1}, DType::kF32));
    EXPECT_TRUE(same_bits(full, expected)) << shard;
  }
  int64_t sum = me + 1;
  group->wait(group->all_reduce_i64(&sum, 1));
  EXPECT_EQ(sum, int64_t{n} * (n + 1) / 2);
  int32_t root = me;
  group->wait(group->broadcast(&root, sizeof(root), n - 1));
  EXPECT_EQ(root, n - 1);
  float x = 1;
  const AllReducePiece sums{&x, &x, 1};
  const auto refused = [&](const auto& call) {
    try {
      call();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_NE(error.message().find("it was made for agreements"), std::string::npos) << error.message();
    }
  };
  refused([&] { group->all_reduce({&sums, 1}, {}); });
  refused([&] { group->all_to_all(&x, &x, 0); });
  refused([&] { group->send(&x, 4, 0); });
  group->wait(group->barrier());
}

void check_every_operation(comm::RankComm& rank) {
  check_all_gather(rank);
  check_reduce_scatter(rank);
  check_all_reduce(rank);
  check_sums_of_bf16(rank);
  check_all_reduce_i64(rank);
  check_all_to_all(rank);
  check_all_to_all_v(rank);
  check_broadcast(rank);
  check_send_recv(rank);
  check_agreements(rank);
  const auto group = world_group(rank);
  group->wait(group->barrier());
}

}  // namespace hawser::testing
