// Tests of Communicator when NCCL answers, when it does not, and when it fails, over an NCCL between threads
// (fake_nccl.h).
#include "engine/comm/nccl/communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/code.h"
#include "tests/comm/nccl/fake_nccl.h"
#include "tests/comm/nccl/fake_stream.h"

namespace hawser::testing {
namespace communicator_test {

using comm::nccl::Communicator;
using comm::nccl::Status;
using comm::nccl::UniqueId;

constexpr auto code(Code c) { return static_cast<Status>(c); }

/// One rank with its stream, used by one thread.
struct End {
  End(int rank, int ranks, double timeout)
      : communicator(fake_nccl(), stream.use(), request(rank, ranks, timeout)), rank(rank) {}
  /// Waits until the call is done, and returns its status.
  Status done(Status given) { return given != 0 ? given : communicator.wait(nullptr, FakeStream::idle()); }
  device::PeerLinkRequest request(int rank, int ranks, double timeout) {
    return {.group = "dp",
            .rank = rank,
            .ranks = ranks,
            .timeout_seconds = timeout,
            .stop = [](void* user) { return static_cast<End*>(user)->stop.load(); },
            .user = this};
  }
  std::atomic<Status> stop{0};
  FakeStream stream;
  Communicator communicator;
  int rank;
};

UniqueId fresh_id() {
  End any(0, 1, 1);
  UniqueId id;
  EXPECT_EQ(any.communicator.make_id(&id), 0);
  return id;
}

/// Runs fn(end) on a thread for each of `ranks` ranks, after all have connected.
void on_ranks(int ranks, const std::function<void(End&)>& fn, double timeout = 20) {
  const UniqueId id = fresh_id();
  std::barrier connected(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      End end(rank, ranks, timeout);
      EXPECT_EQ(end.communicator.connect(id), 0) << end.communicator.message();
      connected.arrive_and_wait();
      fn(end);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(fake_communicators(), 0);
}

double seconds_of(const std::function<void()>& fn) {
  const auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void expect_says(const Communicator& c, std::initializer_list<const char*> parts) {
  for (const char* part : parts)
    EXPECT_NE(std::string(c.message()).find(part), std::string::npos)
        << part << " is not in: " << c.message();
}

TEST(Communicator, GathersAlsoInPlace) {
  on_ranks(3, [](End& end) {
    std::array<int32_t, 6> full = {-1, -1, -1, -1, -1, -1};
    full[static_cast<size_t>(2 * end.rank)] = 10 * end.rank,
                                 full[static_cast<size_t>(2 * end.rank + 1)] = end.rank;
    EXPECT_EQ(end.done(end.communicator.all_gather(full.data(), full.data() + 2 * end.rank, 8)), 0);
    EXPECT_EQ(full, (std::array<int32_t, 6>{0, 0, 10, 1, 20, 2}));
    EXPECT_EQ(end.done(end.communicator.all_gather(full.data(), full.data(), 0)), 0);
  });
}

TEST(Communicator, ExchangesPartsOfUnequalSizes) {
  constexpr int kRanks = 3;
  on_ranks(kRanks, [](End& end) {
    // Rank s has s + 2 r bytes of value 16 s + r for rank r.
    std::vector<char> in, out(64, -1), want(64, -1);
    std::array<int64_t, kRanks> in_at, in_bytes, out_at, out_bytes;
    int64_t at = 0;
    for (int r = 0; r < kRanks; ++r) {
      in_at[static_cast<size_t>(r)] = static_cast<int64_t>(in.size());
      in_bytes[static_cast<size_t>(r)] = end.rank + 2 * r;
      in.insert(in.end(), static_cast<size_t>(end.rank + 2 * r), static_cast<char>(16 * end.rank + r));
      out_at[static_cast<size_t>(r)] = at;
      out_bytes[static_cast<size_t>(r)] = r + 2 * end.rank;
      for (int64_t i = 0; i < r + 2 * end.rank; ++i)
        want[static_cast<size_t>(at++)] = static_cast<char>(16 * r + end.rank);
    }
    EXPECT_EQ(end.done(end.communicator.all_to_all(out.data(), out_at.data(), out_bytes.data(), in.data(),
                                                   in_at.data(), in_bytes.data())),
              0);
    EXPECT_EQ(out, want);
  });
}

TEST(Communicator, PassesOnAndToAll) {
  on_ranks(4, [](End& end) {
    int64_t value = 100 + end.rank;
    EXPECT_EQ(end.done(end.communicator.broadcast(&value, 8, 2)), 0);
    EXPECT_EQ(value, 102);
    if (end.rank > 0) {
      EXPECT_EQ(end.done(end.communicator.recv(&value, 8, end.rank - 1)), 0);
    }
    ++value;
    if (end.rank < 3) {
      EXPECT_EQ(end.done(end.communicator.send(&value, 8, end.rank + 1)), 0);
    }
    EXPECT_EQ(value, 103 + end.rank);
  });
}

/// Memory of the fake NCCL, as an engine's arena.
struct PeerMemory {
  PeerMemory() { EXPECT_EQ(fake_nccl().MemAlloc(&memory, kBytes), 0); }
  ~PeerMemory() { EXPECT_EQ(fake_nccl().MemFree(memory), 0); }
  char* at(int64_t byte) const { return static_cast<char*>(memory) + byte; }
  static constexpr int64_t kBytes = 256;
  void* memory = nullptr;
};

TEST(Communicator, RegistersMemoryUntilItEnds) {
  std::array<PeerMemory, 2> memory;
  const int64_t before = fake_registrations().outside;
  on_ranks(2, [&](End& end) {
    const PeerMemory& own = memory[static_cast<size_t>(end.rank)];
    EXPECT_TRUE(end.communicator.register_memory(own.memory, own.kBytes));
    EXPECT_GT(fake_registrations().ranges, 0);
    *own.at(8 * end.rank) = static_cast<char>(5 + end.rank);
    EXPECT_EQ(end.done(end.communicator.all_gather(own.at(0), own.at(8 * end.rank), 8)), 0);
    EXPECT_EQ(*own.at(0), 5);
    EXPECT_EQ(*own.at(8), 6);
  });
  EXPECT_EQ(fake_registrations().outside, before);
  EXPECT_EQ(fake_registrations().ranges, 0);
}

TEST(Communicator, AMessageOutsideRegisteredMemoryIsSeen) {
  PeerMemory memory;
  const int64_t before = fake_registrations().outside;
  on_ranks(1, [&](End& end) {
    EXPECT_TRUE(end.communicator.register_memory(memory.memory, 64));
    EXPECT_EQ(end.done(end.communicator.all_gather(memory.at(60), memory.at(60), 8)), 0);
  });
  EXPECT_EQ(fake_registrations().outside, before + 2);
}

TEST(Communicator, EndsItsRegistrations) {
  PeerMemory memory, more;
  on_ranks(1, [&](End& end) {
    EXPECT_TRUE(end.communicator.register_memory(memory.memory, memory.kBytes));
    EXPECT_TRUE(end.communicator.register_memory(more.memory, more.kBytes));
    EXPECT_EQ(fake_registrations().ranges, 2);
    EXPECT_EQ(end.communicator.deregister_memory(), 0);
    EXPECT_EQ(fake_registrations().ranges, 0);
    EXPECT_EQ(end.communicator.deregister_memory(), 0);
  });
}

TEST(Communicator, ABrokenOneHasNoRegistrations) {
  PeerMemory memory;
  on_ranks(1, [&](End& end) {
    EXPECT_TRUE(end.communicator.register_memory(memory.memory, memory.kBytes));
    end.stream.fault = "an illegal memory access was encountered";
    EXPECT_NE(end.done(end.communicator.broadcast(memory.memory, 4, 0)), 0);
    EXPECT_FALSE(end.communicator.register_memory(memory.memory, memory.kBytes));
    EXPECT_EQ(end.communicator.deregister_memory(), code(Code::kDeviceUnavailable));
  });
  EXPECT_EQ(fake_registrations().ranges, 0);
}

/// A communicator that cannot register stays open.
TEST(Communicator, SaysWhyItRegistersNothing) {
  comm::nccl::Api without = fake_nccl();
  without.CommRegister = nullptr, without.CommDeregister = nullptr;
  std::snprintf(without.without_registration, sizeof without.without_registration,
                "libnccl.so.2 has no ncclMemAlloc");
  comm::nccl::Api off = fake_nccl();
  off.CommRegister = [](comm::nccl::Comm, void*, size_t, void** handle) { return *handle = nullptr, 0; };
  comm::nccl::Api failing = fake_nccl();
  failing.CommRegister = [](comm::nccl::Comm, void*, size_t, void**) { return 2; };
  PeerMemory memory;
  for (const auto& [api, why] : {std::pair{&without, "libnccl.so.2 has no ncclMemAlloc"},
                                 {&off, "NCCL_LOCAL_REGISTER"},
                                 {&failing, "unhandled system error"}}) {
    FakeStream stream;
    Communicator alone(*api, stream.use(), {.group = "dp", .rank = 0, .ranks = 1});
    EXPECT_EQ(alone.connect(fresh_id()), 0);
    EXPECT_FALSE(alone.register_memory(memory.memory, memory.kBytes));
    expect_says(alone, {"rank 0 of 1 cannot register 256 bytes in group 'dp'", why});
    EXPECT_EQ(alone.broadcast(memory.memory, 4, 0), 0);
  }
}

TEST(Communicator, ARankThatNeverComesIsATimeout) {
  const UniqueId id = fresh_id();
  auto end = std::make_unique<End>(0, 2, 0.2);
  double took = 0;
  took = seconds_of([&] { EXPECT_EQ(end->communicator.connect(id), code(Code::kTimeout)); });
  EXPECT_GE(took, 0.2);
  EXPECT_LT(took, 5);
  expect_says(end->communicator, {"rank 0 of 2", "connect", "'dp'", "waited 0.2 s"});
  end.reset();
  EXPECT_EQ(fake_communicators(), 0) << "the communicator must be gone";
}

TEST(Communicator, ARankThatMissesACallIsATimeoutAndTheReasonStays) {
  on_ranks(
      2,
      [](End& end) {
        if (end.rank == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(600));
        int32_t value = 0;
        EXPECT_EQ(end.done(end.communicator.recv(&value, 4, 1)), code(Code::kTimeout));
        const std::string first = end.communicator.message();
        expect_says(end.communicator, {"recv", "'dp'", "the others' data"});
        EXPECT_LT(seconds_of([&] {
                    EXPECT_EQ(end.done(end.communicator.send(&value, 4, 1)), code(Code::kTimeout));
                  }),
                  0.1);
        EXPECT_EQ(end.communicator.message(), first);
      },
      0.3);
}

TEST(Communicator, AFailureIsReportedWhileNcclWaitsForGraphs) {
  hold_aborts(true);
  on_ranks(
      2,
      [](End& end) {
        if (end.rank != 0) return;
        int64_t number = 0;
        EXPECT_EQ(end.done(end.communicator.recv(&number, sizeof number, 1)), code(Code::kTimeout));
        EXPECT_GE(fake_communicators(), 1);
        hold_aborts(false);  // the rank frees its graphs
      },
      0.2);
}

TEST(Communicator, APeerThatDiesIsSeenBeforeTheDeadline) {
  on_ranks(3, [](End& end) {
    if (end.rank == 2) end.stop = code(Code::kCancelled);
    int32_t value = 0;
    Status status = 0;
    EXPECT_LT(seconds_of([&] { status = end.done(end.communicator.broadcast(&value, 4, 2)); }), 10);
    EXPECT_EQ(status, code(end.rank == 2 ? Code::kCancelled : Code::kUnavailable));
    if (end.rank != 2)
      expect_says(end.communicator, {"broadcast", "remote process", "detail of the library"});
  });
}

TEST(Communicator, EndsAWaitWhenItIsToldTo) {
  on_ranks(2, [](End& end) {
    if (end.rank == 1) return std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      end.stop = code(Code::kAborted);
    });
    int32_t value = 0;
    EXPECT_LT(
        seconds_of([&] { EXPECT_EQ(end.done(end.communicator.recv(&value, 4, 1)), code(Code::kAborted)); }),
        5);
    other.join();
  });
}

TEST(Communicator, MembersThatDisagreeAboutSizesFail) {
  on_ranks(2, [](End& end) {
    std::array<int32_t, 4> value{};
    if (end.rank == 0) {
      EXPECT_EQ(end.communicator.send(value.data(), 8, 1), 0);
      end.communicator.wait(nullptr, FakeStream::idle());
      return;
    }
    EXPECT_EQ(end.done(end.communicator.recv(value.data(), 16, 0)), code(Code::kUnavailable));
    expect_says(end.communicator, {"invalid usage"});
  });
}

/// The time limit applies to the other ranks: this rank's own work may take longer.
TEST(Communicator, CountsTheDeadlineFromWhereItsOwnWorkIsDone) {
  on_ranks(
      2,
      [](End& end) {
        bool reached = false;
        std::thread own([&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(400));
          __atomic_store_n(&reached, true, __ATOMIC_SEQ_CST);
        });
        int32_t value = end.rank;
        EXPECT_EQ(end.communicator.broadcast(&value, 4, 1), 0);
        EXPECT_EQ(end.communicator.wait(FakeStream::event_of(&reached), FakeStream::idle()), 0)
            << end.communicator.message();
        EXPECT_EQ(value, 1);
        own.join();
      },
      0.2);
}

TEST(Communicator, AStreamThatFailsSaysWhy) {
  on_ranks(1, [](End& end) {
    end.stream.fault = "an illegal memory access was encountered";
    int32_t value = 0;
    EXPECT_EQ(end.done(end.communicator.broadcast(&value, 4, 0)), code(Code::kDeviceUnavailable));
    expect_says(end.communicator, {"illegal memory access"});
  });
}

TEST(NcclLibrary, SaysWhatIsMissing) {
  std::array<char, 512> error{};
  EXPECT_EQ(comm::nccl::open_library("libhawser_no_such_nccl.so.2", error.data(), error.size()), nullptr);
  EXPECT_NE(std::string(error.data()).find("libhawser_no_such_nccl.so.2"), std::string::npos) << error.data();
  EXPECT_EQ(comm::nccl::open_library("libm.so.6", error.data(), error.size()), nullptr);
  EXPECT_NE(std::string(error.data()).find("has no ncclGetVersion"), std::string::npos) << error.data();
}

}  // namespace communicator_test
}  // namespace hawser::testing
