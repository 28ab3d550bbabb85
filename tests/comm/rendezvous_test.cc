// Tests of the rendezvous store: its requests, missing ranks, dead ranks, and strangers on the port.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "engine/comm/gate.h"
#include "engine/comm/rendezvous/rank_watch.h"
#include "engine/comm/rendezvous/store_client.h"
#include "engine/comm/rendezvous/store_server.h"

/// Number of recv calls that found no data.
static std::atomic<int64_t> g_reads_in_vain{0};

extern "C" ssize_t __real_recv(int fd, void* data, size_t bytes, int flags);
extern "C" ssize_t __wrap_recv(int fd, void* data, size_t bytes, int flags) {
  const ssize_t got = __real_recv(fd, data, bytes, flags);
  if (got < 0 && errno == EAGAIN) ++g_reads_in_vain;
  return got;
}

namespace hawser::comm {
namespace rendezvous_test {

HostPort at(const StoreServer& server) { return {"127.0.0.1", std::to_string(server.port())}; }
Membership member(int32_t rank, int32_t world, const std::string& job = "job") {
  return {rank, world, job, nullptr};
}
/// A server for `world` ranks on a free port.
struct Server : StoreServer {
  explicit Server(int32_t world, double silence = 10)
      : StoreServer({"127.0.0.1", "0"}, member(0, world), silence) {}
};
StoreClient client_of(const StoreServer& server, int32_t rank, int32_t world, double timeout = 5) {
  return {at(server), member(rank, world), timeout, 10};
}
/// Stores the error that a RankWatch reports, and waits for it.
class Told {
 public:
  RankWatch::Told fn() {
    return [this](const Error& error) {
      const std::lock_guard lock(mutex_);
      error_ = error;
      told_.notify_all();
    };
  }
  Error wait(double seconds = 5) {
    std::unique_lock lock(mutex_);
    told_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return error_.code() != Code::kOk; });
    return error_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  Error error_{Code::kOk, ""};
};
std::unique_ptr<RankWatch> watch_of(StoreClient&& client, int32_t rank, int32_t world, Told& told,
                                    double silence = 10) {
  return std::make_unique<RankWatch>(std::move(client).watch(), rank, world, silence, told.fn());
}

/// Returns the code of the Error that `call` throws, and its message in *message.
template <class Call>
Code thrown(const Call& call, std::string* message) {
  try {
    call();
  } catch (const Error& error) {
    *message = error.message();
    return error.code();
  }
  return Code::kOk;
}

TEST(Rendezvous, ACallThatReachesItselfIsKnown) {
  const StoreServer server({"127.0.0.1", "0"}, member(0, 1), 10);
  std::string why;
  EXPECT_FALSE(reached_itself(connect_until(at(server), steady_seconds() + 5, &why)));
  EXPECT_FALSE(reached_itself(Socket(::socket(AF_INET, SOCK_STREAM, 0))));
  const Socket own(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in name{};
  socklen_t size = sizeof(name);
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(own.fd(), reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(getsockname(own.fd(), reinterpret_cast<sockaddr*>(&name), &size), 0);
  ASSERT_EQ(connect(own.fd(), reinterpret_cast<sockaddr*>(&name), size), 0);
  EXPECT_TRUE(reached_itself(own));
}

TEST(Rendezvous, ThoseWhoMeetLearnWhatTheOthersSay) {
  const Server server(3);
  std::vector<Told> told(3);
  std::vector<std::unique_ptr<RankWatch>> watches;
  for (int32_t r = 0; r < 3; ++r) watches.push_back(watch_of(client_of(server, r, 3), r, 3, told[r]));
  const std::string large(60'000, 'x');
  using Texts = std::vector<std::string>;
  EXPECT_EQ(watches[0]->meet("early", "zero", {1, 2}, 0.05), (Texts{"", ""}));
  std::vector<Texts> heard(3);
  std::vector<std::thread> threads;
  threads.emplace_back([&] { heard[0] = watches[0]->meet("place", "zero", {1}, 20); });
  threads.emplace_back([&] { heard[1] = watches[1]->meet("place", large, {0, 2}, 20); });
  threads.emplace_back([&] { heard[2] = watches[2]->meet("place", "two", {}, 20); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(heard, (std::vector<Texts>{{large}, {"zero", "two"}, {}}));
  std::thread waits([&] {
    std::string message;
    EXPECT_EQ(thrown([&] { watches[0]->meet("late", "", {2}, 20); }, &message), Code::kUnavailable);
  });
  watches[1]->notify(Code::kIo, "the disk is full");
  waits.join();
}

/// Messages, such as heartbeats, come from all ranks. If the server tried to read from all of them for each
/// message, its work would grow with the square of their number.
TEST(Rendezvous, AMessageCostsTheSameHoweverManyRanksThereAre) {
  constexpr int32_t kRanks = 32, kMessages = 50;
  const Server server(kRanks);
  std::list<StoreClient> clients;
  for (int32_t r = 0; r < kRanks; ++r) clients.push_back(client_of(server, r, kRanks));
  const int64_t before = g_reads_in_vain;
  for (int32_t i = 0; i < kMessages; ++i) clients.back().set("key", std::to_string(i));
  EXPECT_LT(g_reads_in_vain - before, kMessages * kRanks / 2);
}

TEST(Rendezvous, KeepsValuesAndWaitsForThem) {
  const Server server(2);
  StoreClient a = client_of(server, 0, 2), b = client_of(server, 1, 2);
  a.set("key", "one");
  EXPECT_EQ(b.get("key", 1), "one");
  const std::string large(60'000, 'x');
  a.set("large", large);
  EXPECT_EQ(b.get("large", 5), large);
  std::thread later([&] { b.set("late", "now"); });
  EXPECT_EQ(a.get("late", 5), "now");
  later.join();
  std::string message;
  EXPECT_EQ(thrown([&] { a.get("never", 0.05); }, &message), Code::kTimeout);
  EXPECT_EQ(thrown([&] { a.set(std::string(300, 'k'), ""); }, &message), Code::kInvalidArgument);
}

TEST(Rendezvous, NamesTheSameMissingRanksToAll) {
  const Server server(5);
  std::vector<std::string> messages(5);
  std::vector<std::thread> threads;
  for (const int32_t r : {0, 2, 4}) {
    threads.emplace_back([&, r] {
      StoreClient client = client_of(server, r, 5);
      EXPECT_EQ(thrown([&] { client.wait_for_all(0.3); }, &messages[r]), Code::kTimeout);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int32_t r : {0, 2, 4})
    EXPECT_EQ(messages[r], "rank 1 and rank 3 of 5 did not connect within 0.3 s");
}

/// Otherwise all ranks would wait for rank 2, whose process was given rank 1.
TEST(Rendezvous, ARankThatComesTwiceIsNamedToAllOthers) {
  const Server server(4);
  std::vector<std::string> messages(4);
  std::vector<Code> codes(4);
  std::vector<std::thread> threads;
  const auto come = [&](int32_t r) {
    StoreClient client = client_of(server, r, 4);
    codes[r] = thrown([&] { client.wait_for_all(20); }, &messages[r]);
  };
  StoreClient first = client_of(server, 1, 4);
  threads.emplace_back([&] { codes[1] = thrown([&] { first.wait_for_all(20); }, &messages[1]); });
  threads.emplace_back(come, 0);
  std::string refusal;
  EXPECT_EQ(thrown([&] { client_of(server, 1, 4); }, &refusal), Code::kInvalidArgument);
  EXPECT_EQ(refusal, "two processes have rank 1 of 4; give each process its own rank");
  threads.emplace_back(come, 3);  // a rank that arrives later is notified too
  for (std::thread& thread : threads) thread.join();
  for (const int32_t r : {0, 1, 3}) {
    EXPECT_EQ(codes[r], Code::kInvalidArgument) << messages[r];
    EXPECT_EQ(messages[r],
              "two processes have rank 1 of 4, and rank 2 of 4 is missing; give each process its own rank");
  }
}

TEST(Rendezvous, RefusesWhoDoesNotFitAndGoesOn) {
  const Server server(2);
  StoreClient first = client_of(server, 1, 2);
  std::string message;
  EXPECT_EQ(thrown([&] { client_of(server, 1, 2); }, &message), Code::kInvalidArgument);
  EXPECT_NE(message.find("two processes have rank 1 of 2"), std::string::npos) << message;
  EXPECT_EQ(thrown([&] { client_of(server, 0, 3); }, &message), Code::kInvalidArgument);
  EXPECT_NE(message.find("with 3 ranks, rank 0 does not"), std::string::npos) << message;
  EXPECT_EQ(thrown([&] { StoreClient(at(server), member(0, 2, "other"), 5, 10); }, &message),
            Code::kInvalidArgument);
  EXPECT_NE(message.find("the job \"other\""), std::string::npos) << message;
  EXPECT_EQ(message.find("\"job\""), std::string::npos) << "strangers are told what to claim: " << message;
  StoreClient last = client_of(server, 0, 2);
  std::thread waits([&] { first.wait_for_all(5); });
  EXPECT_EQ(last.wait_for_all(5), 10) << "the silence that rank 0 allows";
  waits.join();
}

TEST(Rendezvous, AnswersNobodyBeforeAllHaveSaidThatTheyAreThere) {
  const Server server(2);
  StoreClient zero = client_of(server, 0, 2), one = client_of(server, 1, 2);
  std::string message;  // otherwise rank 0 could leave before rank 1 has asked
  EXPECT_EQ(thrown([&] { zero.wait_for_all(0.2); }, &message), Code::kTimeout);
  EXPECT_NE(message.find("rank 1 of 2 did not connect"), std::string::npos) << message;
}

TEST(Rendezvous, ARankThatDiesBeforeAllHaveComeMayComeAgain) {
  const Server server(2);
  { const StoreClient dies = client_of(server, 1, 2); }
  StoreClient zero = client_of(server, 0, 2);
  std::optional<StoreClient> again;
  for (std::string message; !again;) {  // the server may not have detected the end yet
    thrown([&] { again.emplace(client_of(server, 1, 2)); }, &message);
  }
  std::thread one([&] { again->wait_for_all(5); });
  zero.wait_for_all(5);
  one.join();
}

TEST(Rendezvous, TellsEveryoneWhoVanishedButNotWhoLeft) {
  const Server server(3);
  Told told[3];
  std::vector<std::unique_ptr<RankWatch>> watches;
  for (int32_t r = 0; r < 3; ++r) watches.push_back(watch_of(client_of(server, r, 3), r, 3, told[r]));
  watches[1].reset();
  EXPECT_EQ(told[0].wait(0.2).code(), Code::kOk);
  // Rank 2 dies: its connection ends without a kBye.
  Told unheard;
  const Server other(2);
  auto zero = watch_of(client_of(other, 0, 2), 0, 2, unheard);
  { const Socket dies = client_of(other, 1, 2).watch(); }
  EXPECT_EQ(unheard.wait().message().substr(0, 14), "rank 1 of 2 is");
  EXPECT_EQ(unheard.wait().code(), Code::kUnavailable);
}

TEST(Rendezvous, NamesWhoFellSilentToAllOthers) {
  const Server server(3, 0.6);
  Told told[2];
  const Socket silent = client_of(server, 2, 3).watch();
  auto zero = watch_of(client_of(server, 0, 3), 0, 3, told[0], 0.6);
  auto one = watch_of(client_of(server, 1, 3), 1, 3, told[1], 0.6);
  for (Told& t : told) {
    EXPECT_EQ(t.wait().code(), Code::kUnavailable);
    EXPECT_EQ(t.wait().message(), "rank 2 of 3 sent no heartbeat for 0.6 s: stopped, or cut off from rank 0");
  }
}

TEST(Rendezvous, ASilentRankZeroIsNoticedByTheOthers) {
  Socket listener = listen_on({"127.0.0.1", "0"});
  std::string why;
  Socket client =
      connect_until({"127.0.0.1", std::to_string(listening_port(listener))}, steady_seconds() + 5, &why);
  Told told;
  const RankWatch watch(std::move(client), 1, 2, 0.3, told.fn());
  EXPECT_EQ(told.wait().message(),
            "rank 0 of 2 sent no heartbeat for 0.3 s: stopped, or cut off from rank 1");
}

TEST(Rendezvous, WhatOneRankTellsAllHearOnceAndTheFirstReasonStays) {
  const Server server(3);
  Told told[3];
  std::vector<std::unique_ptr<RankWatch>> watches;
  for (int32_t r = 0; r < 3; ++r) watches.push_back(watch_of(client_of(server, r, 3), r, 3, told[r]));
  watches[1]->notify(Error(Code::kNumeric, "rank 1: not a number"));
  for (Told& t : told) EXPECT_EQ(t.wait().message(), "rank 1: not a number");
  watches[2]->notify(Error(Code::kTimeout, "too late"));
  watches.clear();
  for (Told& t : told) EXPECT_EQ(t.wait().code(), Code::kNumeric);
}

TEST(Rendezvous, NothingListensOnceAllWatch) {
  const Server server(2);
  Told told[2];
  std::vector<std::unique_ptr<RankWatch>> watches;
  for (int32_t r = 0; r < 2; ++r) watches.push_back(watch_of(client_of(server, r, 2), r, 2, told[r]));
  const double until = steady_seconds() + 5;
  bool open = true;
  while (open && steady_seconds() < until) {
    std::string why;
    open = connect_until(at(server), steady_seconds(), &why).open();
  }
  EXPECT_FALSE(open);
}

TEST(Rendezvous, SaysWhoIsNotListeningAndEndsInPeace) {
  std::string message;
  EXPECT_EQ(thrown([] { StoreClient({"127.0.0.1", "1"}, member(3, 4), 0.2, 10); }, &message), Code::kTimeout);
  EXPECT_NE(message.find("rank 0 of 4 did not answer within 0.2 s"), std::string::npos) << message;
  EXPECT_NE(message.find("exactly one process"), std::string::npos) << message;
  auto server = std::make_unique<Server>(2);
  StoreClient client = client_of(*server, 0, 2);
  Told told;
  auto watch = watch_of(client_of(*server, 1, 2), 1, 2, told);
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.reset();
  });
  EXPECT_EQ(thrown([&] { client.get("never", kNoDeadline); }, &message), Code::kCancelled);
  end.join();
  EXPECT_EQ(thrown([&] { client.set("key", ""); }, &message), Code::kUnavailable);
  EXPECT_EQ(told.wait(0.1).code(), Code::kOk);
}

TEST(Rendezvous, OutlivesAMemberThatSpeaksNonsense) {
  std::mt19937 random(17);
  for (int i = 0; i < 50; ++i) {
    const Server server(2);
    Told told;
    auto zero = watch_of(client_of(server, 0, 2), 0, 2, told);
    const Socket socket = client_of(server, 1, 2).watch();
    StoreRequest request;
    request.op = static_cast<StoreOp>(random() % 9);
    request.key_bytes = random() % 3 == 0 ? random() : random() % 20;
    request.value_bytes = random() % 3 == 0 ? random() : random() % 20;
    std::string bytes(reinterpret_cast<const char*>(&request), sizeof(request));
    bytes.resize(random() % 100, 'x');
    write_all(socket, bytes.data(), bytes.size(), steady_seconds() + 5);
  }
}

TEST(Rendezvous, AddressesAreReadStrictly) {
  EXPECT_EQ(parse_address("host:29500").host, "host");
  EXPECT_EQ(parse_address("[::1]:80").host, "::1");
  for (const char* bad : {"", "host", "host:", ":1", "host:70000", "host:12a", "host:-1"}) {
    std::string message;
    EXPECT_EQ(thrown([&] { parse_address(bad); }, &message), Code::kInvalidArgument) << bad;
  }
}

}  // namespace rendezvous_test
}  // namespace hawser::comm
