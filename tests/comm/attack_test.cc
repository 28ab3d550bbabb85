// The attack drill: during the rendezvous of a job of three ranks, its ports receive every kind of hostile
// traffic. The test checks that no attacker joins, no resource grows, and the job finishes. It prints its
// counts.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "engine/comm/gate.h"
#include "engine/comm/shm/local_socket.h"
#include "engine/comm/tcp/links.h"
#include "tests/comm/identity_case.h"
#include "tests/comm/tcp_worlds.h"
#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace attack_test {

using comm::HostPort, comm::Membership, comm::Purpose, comm::Socket;

constexpr int32_t kWorld = 3, kConnects = 10'000;

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class Attack : public ::testing::Test {
 protected:
  comm::AddressOptions rank(int32_t r) const {
    comm::AddressOptions options = address_options(address_, r, kWorld);
    options.job = "the job";
    if (have_secrets()) options.secret = secret_of("ours");
    return options;
  }
  Socket knock(const std::string& port) const {
    std::string why;
    return comm::connect_until({"127.0.0.1", port}, steady_seconds() + 1, &why);
  }
  void say(const Socket& socket, const std::string& bytes) const {
    comm::write_all(socket, bytes.data(), bytes.size(), steady_seconds() + 1);
  }
  std::string garbage() {
    std::string bytes(random_() % 3000, '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }
  /// Tries to join with a handshake, and counts the try; a welcome counts as a join.
  void pretend(const std::string& port, const Membership& self, Purpose purpose) {
    ++tries_;
    try {
      std::string why;
      const Socket socket = knock(port);
      if (socket.open() && comm::introduce(socket, self, 0, purpose, steady_seconds() + 1, &why)) ++joins_;
    } catch (const Error&) {  // every try must end with an error
    }
  }

  /// Runs a complete job of rank r: rendezvous, one sum, end.
  void train(int32_t r) {
    const auto job = comm::make_address(rank(r));
    const auto end = job->connect(r, test_comm_options());
    const auto group = world_group(*end);
    float x = static_cast<float>(r + 1);
    const comm::AllReducePiece piece = {&x, &x, 1};
    group->wait(group->all_reduce({&piece, 1}, {}));
    if (x == 1 + 2 + 3) ++finished_;
  }

  const std::string address_ = free_address();
  const std::string port_ = address_.substr(address_.find(':') + 1);
  std::mt19937 random_{7};
  std::atomic<int> tries_{0}, joins_{0}, finished_{0};
};

/// Returns the bytes that a rank sends to join, recorded by a proxy that breaks off the conversation.
std::string record_a_conversation(const std::string& port, const Membership& self) {
  Socket between = comm::listen_on({"127.0.0.1", "0"});
  const HostPort trap{"127.0.0.1", std::to_string(comm::listening_port(between))};
  std::string recorded;
  std::thread relay([&] {
    Socket from;
    while (!from.open()) from = Socket(accept4(between.fd(), nullptr, nullptr, SOCK_NONBLOCK));
    std::string why;
    const Socket to = comm::connect_until({"127.0.0.1", port}, steady_seconds() + 5, &why);
    char bytes[80];
    for (const size_t part : {48, 80}) {  // the sizes of greeting and challenge
      const bool outward = part == 48;
      if (!comm::read_all(outward ? from : to, bytes, part, steady_seconds() + 5)) return;
      if (outward) recorded.append(bytes, part);
      comm::write_all(outward ? to : from, bytes, part, steady_seconds() + 5);
    }
    std::string claim(16 + 16 + 128 + 32, '\0');
    if (comm::read_all(from, claim.data(), claim.size(), steady_seconds() + 5)) recorded += claim;
  });
  try {
    std::string why;
    const Socket socket = comm::connect_until(trap, steady_seconds() + 5, &why);
    comm::introduce(socket, self, 0, Purpose::kJoin, steady_seconds() + 5, &why);
  } catch (const Error&) {
  }
  relay.join();
  return recorded;
}

TEST_F(Attack, NobodyJoinsNothingGrowsAndTheJobFinishes) {
  const size_t descriptors = open_descriptors();
  std::vector<std::thread> ranks;
  for (const int32_t r : {0, 1}) ranks.emplace_back([&, r] { train(r); });
  while (!knock(port_).open()) {
  }
  const size_t memory = resident_bytes();

  std::vector<Socket> slow;  // sends one byte and then nothing
  for (int i = 0; i < 200; ++i) say(slow.emplace_back(knock(port_)), "h");
  for (int i = 0; i < 300; ++i) say(knock(port_), garbage());
  for (int i = 0; i < kConnects; ++i) knock(port_).close();
  for (int i = 0; i < 20; ++i) {
    pretend(port_, {2, kWorld, "another job", nullptr}, Purpose::kJoin);
    pretend(port_, {2, kWorld + 1, "the job", rank(2).secret}, Purpose::kJoin);
    // Another process has this rank already.
    pretend(port_, {1, kWorld, "the job", rank(2).secret}, Purpose::kJoin);
  }
  if (have_secrets()) {
    for (int i = 0; i < 20; ++i) pretend(port_, {2, kWorld, "the job", secret_of("guess")}, Purpose::kJoin);
    const std::string recorded = record_a_conversation(port_, {2, kWorld, "the job", rank(2).secret});
    ASSERT_EQ(recorded.size(), 48u + 192u);
    for (int i = 0; i < 20; ++i) {
      const Socket replay = knock(port_);
      say(replay, recorded);
      std::string answer(80 + 8, '\0');  // challenge, then verdict
      ++tries_;
      if (!comm::read_all(replay, answer.data(), answer.size(), steady_seconds() + 2)) continue;
      if (answer.substr(80) == std::string(8, '\0')) ++joins_;
    }
  }
  EXPECT_THROW(comm::make_address(rank(0)), Error) << "a second job on the same port";
  EXPECT_LT(resident_bytes(), memory + (24u << 20));
  EXPECT_LT(open_descriptors(), descriptors + 200 + 200) << "200 are the attacker's own";

  ranks.emplace_back([&] { train(2); });
  for (std::thread& thread : ranks) thread.join();
  slow.clear();
  EXPECT_EQ(finished_, kWorld);
  EXPECT_EQ(joins_, 0);
  EXPECT_EQ(open_descriptors(), descriptors);
  std::printf("%d connections, %d pretenders: %d joins\n", kConnects, tries_.load(), joins_.load());
}

/// Ranks listen for their links only for a moment; this test extends that moment. Ranks that share memory
/// connect through local sockets, which strangers can find as well.
class AttackOnLinks : public Attack, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Sharing, AttackOnLinks, ::testing::Bool());

TEST_P(AttackOnLinks, LinksAreMadeInSpiteOfWhoeverFindsThem) {
  const bool shares = GetParam();
  const size_t descriptors = open_descriptors();
  std::vector<Membership> members;
  for (int32_t r = 0; r < kWorld; ++r) members.push_back({r, kWorld, "the job", rank(r).secret});
  std::deque<comm::Links> links;
  std::vector<std::string> addresses;
  for (const Membership& self : members)
    addresses.push_back(links.emplace_back(self, "127.0.0.1", shares).address());
  std::vector<std::vector<std::unique_ptr<comm::Wire>>> connected(kWorld);
  const auto connect = [&](int32_t r) {
    std::vector<int32_t> others;
    std::vector<std::string> where;
    for (int32_t o = 0; o < kWorld; ++o)
      if (o != r) others.push_back(o), where.push_back(addresses[o]);
    connected[r] = links[r].connect(others, where, steady_seconds() + 20, -1);
  };
  std::thread zero([&] { connect(0); });
  const std::string after = addresses[0].substr(addresses[0].find(':') + 1),
                    port = after.substr(0, after.find(' '));
  const std::string local = after.substr(after.rfind(' ') + 1);
  std::vector<Socket> held;
  for (int i = 0; i < 300; ++i) {
    std::string why;
    Socket stranger = shares && i % 2 == 1 ? comm::connect_here(local, &why) : knock(port);
    if (stranger.open()) say(held.emplace_back(std::move(stranger)), garbage().substr(0, 64));
  }
  for (int i = 0; i < 20; ++i) {
    pretend(port, {2, kWorld, "another job", nullptr}, Purpose::kLink);
    pretend(port, {1, kWorld, "the job", have_secrets() ? secret_of("guess") : nullptr}, Purpose::kJoin);
  }
  std::thread one([&] { connect(1); });
  connect(2);
  zero.join();
  one.join();
  std::string ping = "ping", heard(4, ' '), why;
  const iovec parts[] = {{ping.data(), ping.size()}};
  EXPECT_EQ(connected[0][1]->put(parts, &why), 4) << why;
  pollfd entry = connected[2][0]->awaited(false, true);
  if (entry.events != 0) poll(&entry, 1, 5000);
  EXPECT_EQ(connected[2][0]->take(heard.data(), 4, &why), 4) << why;
  EXPECT_EQ(heard, "ping");
  for (const auto& wires : connected) {
    for (const auto& wire : wires) EXPECT_EQ(wire->is_shared(), shares);
  }
  EXPECT_FALSE(knock(port).open()) << "nothing listens any more";
  EXPECT_FALSE(shares && comm::connect_here(local, &why).open()) << "nothing listens any more";
  EXPECT_EQ(joins_, 0);
  held.clear(), connected.clear();
  links.clear();
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(Trust, OutsideTheLoopbackItTakesASecretOrAWord) {
  comm::AddressOptions options = address_options("10.9.8.7:29500", 1, 2);
  options.host.clear();
  options.timeout_seconds = 0.1;
  const auto refused = [&] {
    try {
      comm::make_address(options);
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kOk;
  };
  EXPECT_EQ(refused(), Code::kFailedPrecondition);
  options.address = "127.0.0.1:1";
  options.host = "10.9.8.7";
  EXPECT_EQ(refused(), Code::kFailedPrecondition);
  options.trust_network = true;
  EXPECT_EQ(refused(), Code::kTimeout);
  options.trust_network = false;
  if (have_secrets()) options.secret = secret_of("ours");
  EXPECT_EQ(refused(), have_secrets() ? Code::kTimeout : Code::kFailedPrecondition);
}

}  // namespace attack_test
}  // namespace hawser::testing
