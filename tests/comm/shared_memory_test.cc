// Tests of memory that two ranks of one host share: rings, wires over them, and what happens if the system
// refuses the memory. kinds_tcp.cc runs all operations and failures over it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "engine/comm/gate.h"
#include "engine/comm/shm/local_socket.h"
#include "engine/comm/shm/ring_wire.h"
#include "engine/comm/tcp/mesh.h"
#include "tests/comm/tcp_worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace shared_memory_test {

using comm::RingState, comm::RingWire, comm::SharedMemory, comm::SharedRing, comm::Socket;

constexpr int64_t kCapacity = 256;

/// A ring's memory, and both sides of it.
struct Ring {
  alignas(64) std::array<char, SharedRing::bytes_of(kCapacity)> memory{};
  SharedRing writer{memory.data(), kCapacity}, reader{memory.data(), kCapacity};
  RingState& state() { return *reinterpret_cast<RingState*>(memory.data()); }
};

iovec part(std::string& text, size_t at, size_t bytes) { return {text.data() + at, bytes}; }

std::string random_text(size_t bytes, std::mt19937_64& random) {
  std::string text(bytes, 0);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

TEST(SharedRing, KeepsBytesInOrderWhateverTheSizes) {
  std::mt19937_64 random(1);
  Ring ring;
  std::string text = random_text(100'000, random), received;
  size_t put = 0;
  while (received.size() < text.size()) {
    const size_t first = random() % 200, second = random() % 200;
    const size_t a = std::min(first, text.size() - put), b = std::min(second, text.size() - put - a);
    const iovec parts[2] = {part(text, put, a), part(text, put + a, b)};
    put += static_cast<size_t>(ring.writer.put(parts).bytes);
    std::string some(random() % 300, 0);
    const auto taken = ring.reader.take(some.data(), std::ssize(some));
    received.append(some, 0, static_cast<size_t>(taken.bytes));
  }
  EXPECT_EQ(received, text);
}

TEST(SharedRing, WakesASleepingReaderOnceAndAWriterWhenItHasRoom) {
  Ring ring;
  std::string text(kCapacity, 'x');
  EXPECT_FALSE(ring.writer.put(std::array{part(text, 0, 10)}).wakes) << "nobody sleeps";
  EXPECT_FALSE(ring.reader.reader_sleeps()) << "there are bytes";
  ring.reader.take(text.data(), 10);
  EXPECT_TRUE(ring.reader.reader_sleeps());
  EXPECT_TRUE(ring.writer.put(std::array{part(text, 0, 1)}).wakes);
  EXPECT_FALSE(ring.writer.put(std::array{part(text, 0, 1)}).wakes) << "it has been woken";

  EXPECT_EQ(ring.writer.put(std::array{part(text, 0, kCapacity)}).bytes, kCapacity - 2);
  EXPECT_TRUE(ring.writer.writer_sleeps(1000));
  EXPECT_FALSE(ring.reader.take(text.data(), kCapacity / 2 - 1).wakes) << "less than half is free";
  EXPECT_TRUE(ring.reader.take(text.data(), 1).wakes);
  EXPECT_FALSE(ring.reader.take(text.data(), 1).wakes) << "it has been woken";
  EXPECT_FALSE(ring.writer.writer_sleeps(1000)) << "it has room";
}

TEST(SharedRing, RefusesCountsThatTheOtherSideHasOverwritten) {
  for (const uint64_t wrong : {uint64_t{kCapacity + 1}, uint64_t{1} << 63}) {
    Ring ring;
    std::string text(kCapacity, 'x');
    ring.state().written.store(wrong);
    EXPECT_EQ(ring.reader.take(text.data(), 1).bytes, -1);
    ring.state().read.store(wrong);  // more than the writer's own count, 0
    EXPECT_EQ(ring.writer.put(std::array{part(text, 0, 1)}).bytes, -1);
  }
}

struct Sockets {
  Sockets() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    lower = Socket(fds[0]), higher = Socket(fds[1]);
  }
  Socket lower, higher;
};

double soon() { return steady_seconds() + 10; }

/// Two wires of a world of `world` ranks, over memory that the lower one passed to the other.
struct Wires {
  explicit Wires(int32_t world) {
    Sockets sockets;
    std::string why;
    SharedMemory made = SharedMemory::make(comm::shared_bytes(world), &why), received;
    EXPECT_TRUE(made.open()) << why;
    EXPECT_TRUE(made.pass(sockets.lower));
    EXPECT_TRUE(SharedMemory::receive(sockets.higher, comm::shared_bytes(world), soon(), -1, &received));
    lower->add(1, std::make_unique<RingWire>(std::move(sockets.lower), std::move(made), world, true));
    higher->add(0, std::make_unique<RingWire>(std::move(sockets.higher), std::move(received), world, false));
  }
  std::unique_ptr<comm::Mesh> lower = std::make_unique<comm::Mesh>(2, -1),
                              higher = std::make_unique<comm::Mesh>(2, -1);
};

/// Sends `out` and receives into `in` at the same time, through a mesh as ranks do; returns the reason if the
/// wire broke.
std::string exchange(comm::Mesh& mesh, int32_t peer, std::string& out, std::string& in) {
  const int32_t status = mesh.exchange(peer, {.data = out.data(), .bytes = std::ssize(out)},
                                       {.data = in.data(), .bytes = std::ssize(in)}, 10);
  return status == static_cast<int32_t>(Code::kTimeout) ? "nobody woke it" : mesh.message;
}

TEST(RingWire, CarriesBothDirectionsAtOnceAndNobodySleepsForever) {
  std::mt19937_64 random(2);
  Wires wires(2);
  for (int round = 0; round < 60; ++round) {
    const auto size = [&] { return static_cast<size_t>(random() % (round % 3 == 0 ? 3'000'000 : 2'000)); };
    std::string up = random_text(size(), random), down = random_text(size(), random);
    std::string at_lower(down.size(), 0), at_higher(up.size(), 0), why;
    std::thread other([&] { why = exchange(*wires.higher, 0, down, at_higher); });
    EXPECT_EQ(exchange(*wires.lower, 1, up, at_lower), "");
    other.join();
    EXPECT_EQ(why, "");
    EXPECT_TRUE(at_lower == down && at_higher == up) << "round " << round;
  }
}

TEST(RingWire, ReadsWhatWasWrittenBeforeTheOtherSideEnded) {
  Wires wires(2);
  std::string out = "the last words", in(out.size(), 0), none, more(1, 0);
  EXPECT_EQ(exchange(*wires.lower, 1, out, none), "");
  wires.lower.reset();
  EXPECT_EQ(exchange(*wires.higher, 0, none, in), "");
  EXPECT_EQ(in, out);
  const std::string closed = std::string("the connection to rank 0 broke: ") + comm::kOtherSideClosed;
  EXPECT_EQ(exchange(*wires.higher, 0, none, more), closed);
  EXPECT_EQ(exchange(*wires.higher, 0, out, none), closed);
}

TEST(SharedMemory, HasAFixedSize) {
  Sockets sockets;
  std::string why;
  SharedMemory made = SharedMemory::make(1 << 16, &why), received;
  ASSERT_TRUE(made.open()) << why;
  ASSERT_TRUE(made.pass(sockets.lower));
  EXPECT_THROW(SharedMemory::receive(sockets.higher, 1 << 17, soon(), -1, &received), Error);
  EXPECT_FALSE(received.open());
}

/// The rings of a rank have the bytes that the plan counts for them, in worlds of all sizes.
TEST(SharedMemory, TakesNoMoreThanThePlanCounts) {
  for (const int32_t world : {2, 3, 5, 17, 100, 129, 4096}) {
    const int64_t neighbours = std::min(world - 1, 128);
    EXPECT_EQ(comm::rings_bytes(world), neighbours * comm::shared_bytes(world) / 2) << world;
    EXPECT_LE(neighbours * comm::ring_capacity(world), int64_t{8} << 20) << world;
  }
}

TEST(LocalSocket, ConnectsByNameOnly) {
  std::string name, other, why;
  const Socket listener = comm::listen_here(&name), second = comm::listen_here(&other);
  ASSERT_TRUE(listener.open());
  EXPECT_NE(name, other);
  EXPECT_TRUE(comm::connect_here(name, &why).open()) << why;
  EXPECT_FALSE(comm::connect_here(name + "x", &why).open());
  EXPECT_FALSE(why.empty());
  EXPECT_EQ(comm::this_host(), comm::this_host());
}

/// Connects all pairs of three ranks, and sums over them; returns the connections of a rank.
comm::Connections connections_of(const std::vector<std::shared_ptr<comm::Comm>>& world, int32_t of = 1) {
  comm::Connections found;
  const auto errors = run_world(
      world,
      [&](comm::RankComm& rank) {
        const auto group = world_group(rank);
        std::vector<float> x(100'000, 1.0f);
        const comm::AllReducePiece piece = {x.data(), x.data(), std::ssize(x)};
        group->wait(group->all_reduce({&piece, 1}, {}));
        EXPECT_EQ(x.back(), 3.0f);
        if (rank.rank() == of) found = rank.connections();
      },
      test_comm_options());
  for (const auto& error : errors) EXPECT_EQ(error, nullptr) << caught(error).message;
  return found;
}

TEST(SharedConnections, AreCounted) {
  const comm::Connections shared = connections_of(shared_world(3));
  EXPECT_EQ(shared.shared, 2);
  EXPECT_EQ(shared.sockets, 0);
  EXPECT_EQ(shared.not_shared, "");
  const comm::Connections sockets = connections_of(tcp_world(3));
  EXPECT_EQ(sockets.shared, 0);
  EXPECT_EQ(sockets.sockets, 2);
  EXPECT_EQ(sockets.not_shared, "");
}

/// The limit on the size of files applies to memory without a name.
TEST(SharedConnections, AreSocketsIfTheSystemRefusesTheMemory) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const comm::Connections higher = connections_of(shared_world(3)),
                          lowest = connections_of(shared_world(3), 0);
  setrlimit(RLIMIT_FSIZE, &before);
  for (const comm::Connections& found : {higher, lowest}) {
    EXPECT_EQ(found.shared, 0);
    EXPECT_EQ(found.sockets, 2);
  }
  EXPECT_NE(higher.not_shared.find("memory to share"), std::string::npos) << higher.not_shared;
  const std::string need =
      fmt::format("rank 0 did not get {} bytes of memory to share", comm::shared_bytes(3));
  EXPECT_NE(lowest.not_shared.find(need), std::string::npos) << lowest.not_shared;
}

}  // namespace shared_memory_test
}  // namespace hawser::testing
