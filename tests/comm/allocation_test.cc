// Tests that a call allocates nothing, on any thread, over the local transport and over a host program's
// functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>

#include "engine/comm/host/host_transport.h"
#include "tests/comm/worlds.h"
#include "tests/harness/spawn_ranks.h"

extern std::atomic<long> g_allocations;

namespace hawser::testing {
namespace allocation_test {

/// Issues calls of every kind except send and recv, whose order depends on the partner.
void many_calls(comm::RankComm& rank, std::barrier<>& meet) {
  const auto group = world_group(rank);
  const auto n = static_cast<size_t>(group->size());
  std::vector<float> a(1000 * n), b(1000 * n);
  std::vector<int64_t> sizes(n, 40);
  const std::array<comm::AllReducePiece, 2> all_reduce = {
      {{a.data(), a.data(), 1001}, {b.data(), b.data(), 7}}};
  const comm::ReducePiece reduce = {a.data(), b.data(), 999};
  const comm::GatherPiece gather = {a.data(), b.data(), 999};
  int64_t count = 1;
  const auto calls = [&] {
    for (int i = 0; i < 20; ++i) {
      group->all_reduce(all_reduce, {.wire = DType::kBf16, .accumulate = i % 2 == 0});
      group->reduce_scatter({&reduce, 1}, {});
      group->all_gather({&gather, 1}, DType::kF32);
      group->all_reduce_i64(&count, 1);
      group->all_to_all(a.data(), b.data(), 100);
      group->all_to_all_v(a.data(), sizes, b.data(), sizes);
      group->wait(group->broadcast(a.data(), 400, 0));
    }
  };
  calls();
  meet.arrive_and_wait();
  const long before = g_allocations;
  meet.arrive_and_wait();
  calls();
  meet.arrive_and_wait();
  EXPECT_EQ(g_allocations - before, 0);
  meet.arrive_and_wait();
}

TEST(CommAllocation, LocalCallsAllocateNothing) {
  std::barrier meet(3);
  spawn_ranks(3, [&](comm::RankComm& rank) { many_calls(rank, meet); });
}

/// Two ranks over two fixed rings of bytes: a transport that allocates nothing itself.
struct Ring {
  std::array<char, 1 << 16> bytes;
  std::atomic<uint64_t> put{0}, taken{0};

  void write(const char* data, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      while (put.load() - taken.load() == bytes.size()) std::this_thread::yield();
      bytes[put.load() % bytes.size()] = data[i];
      put.fetch_add(1);
    }
  }
  void read(char* data, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      while (put.load() == taken.load()) std::this_thread::yield();
      data[i] = bytes[taken.load() % bytes.size()];
      taken.fetch_add(1);
    }
  }
};
struct RingEnd {
  Ring* out;
  Ring* in;
};

TEST(CommAllocation, CallsOverAHostsFunctionsAllocateNothing) {
  const auto there = std::make_unique<Ring>(), back = std::make_unique<Ring>();
  RingEnd ends[2] = {{there.get(), back.get()}, {back.get(), there.get()}};
  std::vector<std::shared_ptr<comm::Comm>> world;
  for (int32_t r = 0; r < 2; ++r) {
    comm::HostTransport t;
    t.user = &ends[r];
    t.send = [](void* user, int32_t, const void* data, int64_t bytes, double) {
      static_cast<RingEnd*>(user)->out->write(static_cast<const char*>(data), bytes);
      return 0;
    };
    t.recv = [](void* user, int32_t, void* data, int64_t bytes, double) {
      static_cast<RingEnd*>(user)->in->read(static_cast<char*>(data), bytes);
      return 0;
    };
    t.abort = [](void*, int32_t, const char*) {};
    world.push_back(comm::make_host(t, r, 2));
  }
  std::barrier meet(2);
  expect_world(world, [&](comm::RankComm& rank) {
    EXPECT_GT(rank.transport_bytes(), 0);
    many_calls(rank, meet);
  });
}

}  // namespace allocation_test
}  // namespace hawser::testing
