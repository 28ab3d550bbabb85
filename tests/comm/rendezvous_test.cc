// The store where ranks find each other: its requests, who is missing, who died, and strangers on the port.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "engine/comm/gate.h"
#include "engine/comm/rendezvous/store_client.h"
#include "engine/comm/rendezvous/store_server.h"

namespace hawser::comm {
namespace {

HostPort at(const StoreServer& server) { return {"127.0.0.1", std::to_string(server.port())}; }

/// The code of the Error that `call` throws; its message goes to `message`.
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

TEST(Rendezvous, KeepsValuesCountersAndFirstSettings) {
  const StoreServer server({"127.0.0.1", "0"}, 2);
  StoreClient a(at(server), 0, 2, 5), b(at(server), 1, 2, 5);
  a.set("key", "one");
  EXPECT_EQ(b.get("key", 1), "one");
  EXPECT_EQ(a.set_first("key", "two"), "one");
  EXPECT_EQ(a.set_first("other", "two"), "two");
  EXPECT_EQ(a.add("count", 5), 5);
  EXPECT_EQ(b.add("count", -7), -2);
  std::string large(3'000'000, 'x');
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
  const StoreServer server({"127.0.0.1", "0"}, 5);
  std::vector<std::string> messages(5);
  std::vector<std::thread> threads;
  for (const int32_t r : {0, 2, 4}) {
    threads.emplace_back([&, r] {
      StoreClient client(at(server), r, 5, 5);
      client.say_hello();
      EXPECT_EQ(thrown([&] { client.wait_for_all(0.3); }, &messages[r]), Code::kTimeout);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int32_t r : {0, 2, 4})
    EXPECT_EQ(messages[r], "rank 1 and rank 3 of 5 did not arrive within 0.3 s");
}

TEST(Rendezvous, RefusesARankThatCameTwiceAndAnotherWorldSize) {
  const StoreServer server({"127.0.0.1", "0"}, 2);
  StoreClient first(at(server), 1, 2, 5), second(at(server), 1, 2, 5), third(at(server), 0, 3, 5);
  first.say_hello();
  std::string message;
  EXPECT_EQ(thrown([&] { second.say_hello(); }, &message), Code::kInvalidArgument);
  EXPECT_NE(message.find("rank 1 of 2 came twice"), std::string::npos) << message;
  EXPECT_EQ(thrown([&] { third.say_hello(); }, &message), Code::kInvalidArgument);
  EXPECT_NE(message.find("a world of 3, rank 0 from one of 2"), std::string::npos) << message;
}

TEST(Rendezvous, TellsEveryoneWhoVanishedButNotWhoSaidBye) {
  const StoreServer server({"127.0.0.1", "0"}, 3);
  StoreClient a(at(server), 0, 3, 5), watch(at(server), 0, 3, 5);
  auto b = std::make_unique<StoreClient>(at(server), 1, 3, 5);
  auto c = std::make_unique<StoreClient>(at(server), 2, 3, 5);
  a.say_hello(), b->say_hello(), c->say_hello();
  a.wait_for_all(5);
  b->bye();
  b.reset();
  std::string message;
  EXPECT_EQ(thrown([&] { watch.get(kFaultKey, 0.1); }, &message), Code::kTimeout);
  c.reset();
  EXPECT_EQ(watch.get(kFaultKey, 5).substr(4, 14), "rank 2 of 3 is");
}

TEST(Rendezvous, SaysWhoIsNotListeningAndEndsInPeace) {
  std::string message;
  EXPECT_EQ(thrown([] { StoreClient({"127.0.0.1", "1"}, 3, 4, 0.2); }, &message), Code::kTimeout);
  EXPECT_NE(message.find("rank 0 of 4 did not arrive within 0.2 s"), std::string::npos) << message;
  auto server = std::make_unique<StoreServer>(HostPort{"127.0.0.1", "0"}, 1);
  StoreClient client(at(*server), 0, 1, 5);
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.reset();
  });
  EXPECT_EQ(thrown([&] { client.get("never", kNoDeadline); }, &message), Code::kCancelled);
  end.join();
  EXPECT_EQ(thrown([&] { client.set("key", ""); }, &message), Code::kUnavailable);
}

TEST(Rendezvous, OutlivesStrangersAndGarbage) {
  const StoreServer server({"127.0.0.1", "0"}, 1);
  std::mt19937 random(17);
  std::vector<Socket> held;
  for (int i = 0; i < 300; ++i) {
    std::string why;
    Socket socket = connect_until(at(server), steady_seconds() + 5, &why);
    ASSERT_TRUE(socket.open()) << why;
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 3 == 0) {  // a head of ours with impossible sizes, or a piece of one
      StoreRequest request;
      request.op = static_cast<StoreOp>(random() % 12);
      request.key_bytes = random();
      request.value_bytes = random();
      bytes.assign(reinterpret_cast<const char*>(&request), random() % (sizeof(request) + 1));
    }
    write_all(socket, bytes.data(), bytes.size(), steady_seconds() + 5);
    if (i % 2 == 0) held.push_back(std::move(socket));
  }
  held.clear();
  StoreClient client(at(server), 0, 1, 5);
  client.say_hello();
  client.wait_for_all(5);
  client.set("key", "value");
  EXPECT_EQ(client.get("key", 5), "value");
}

TEST(Rendezvous, AddressesAreReadStrictly) {
  EXPECT_EQ(parse_address("host:29500").host, "host");
  EXPECT_EQ(parse_address("[::1]:80").host, "::1");
  for (const char* bad : {"", "host", "host:", ":1", "host:70000", "host:12a", "host:-1"}) {
    std::string message;
    EXPECT_EQ(thrown([&] { parse_address(bad); }, &message), Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace hawser::comm
