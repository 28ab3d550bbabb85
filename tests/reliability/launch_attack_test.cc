// Launch attack test: another user of this machine attacks `hawser launch` at a fixed address with garbage,
// silent connections, claims with the right name, rank and world without or with a wrong secret, and
// conversations recorded from an earlier launch. Nobody joins or learns the job's name, and every launch
// trains with the bits of an undisturbed one. Prints its counts. Needs root, to become another user.
#include <fmt/format.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <atomic>
#include <random>

#include "engine/comm/gate.h"
#include "engine/comm/identity/handshake.h"
#include "engine/comm/rendezvous/store_server.h"
#include "tests/cli/run_command.h"

namespace hawser::testing {
namespace launch_attack_test {

using comm::Membership, comm::Purpose, comm::Socket;

constexpr int32_t kWorld = 3;
constexpr uid_t kStranger = 65534;

/// Counters of the attacker's processes, in shared memory.
struct Counts {
  std::atomic<int64_t> connections, garbage, held, claims, replays, joins, told;
};

std::shared_ptr<const comm::Secret> secret_of(std::string name) {
  name.resize(comm::Secret::kLeastBytes, '.');
  return std::make_shared<const comm::Secret>(name, HAWSER_MODULE_FOLDER);
}

/// Returns what rank 2 of an earlier launch sent to join: a successful conversation, as recorded by somebody
/// in between.
std::string recorded_conversation(const std::string& job) {
  const auto secret = secret_of("of an earlier launch");
  const Membership zero{0, kWorld, job, secret}, two{2, kWorld, job, secret};
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  const Socket here(ends[0]), there(ends[1]);
  std::string recorded;
  std::thread listener([&] {
    comm::Greeter greeter(zero);
    auto state = comm::Greeter::State::kTalking;
    std::string in, out;
    for (char byte;
         state == comm::Greeter::State::kTalking && comm::read_all(there, &byte, 1, steady_seconds() + 5);) {
      recorded += byte, in += byte;
      state = greeter.take(in, out);
      if (state == comm::Greeter::State::kClaimed) comm::Greeter::admit(out);
      comm::write_all(there, out.data(), out.size(), steady_seconds() + 5);
      out.clear();
    }
  });
  std::string why;
  EXPECT_TRUE(comm::introduce(here, two, 0, Purpose::kJoin, steady_seconds() + 5, &why)) << why;
  listener.join();
  return recorded;
}

/// A process of another user, which runs until it is killed or the test ends.
class Stranger {
 public:
  Stranger(const comm::HostPort& address, const std::string& job, Counts* counts)
      : address_(address), job_(job), recorded_(recorded_conversation(job)), counts_(*counts) {
    guess_ = secret_of("a guess");
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setgroups(0, nullptr) != 0 || setgid(kStranger) != 0 || setuid(kStranger) != 0) _exit(99);
    std::thread holder([this] { hold(); });
    std::thread babbler([this] { babble(); });
    for (;;) {
      claim({2, kWorld, job_, nullptr});
      claim({2, kWorld, job_, guess_});
      claim({1, kWorld + 1, "another job", nullptr});
      replay();
    }
  }
  ~Stranger() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  /// Connects once, as soon as somebody listens.
  Socket knock() {
    for (;;) {
      std::string why;
      Socket socket = comm::connect_until(address_, steady_seconds(), &why);
      if (socket.open()) {
        ++counts_.connections;
        return socket;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  void hold() {
    std::vector<Socket> silent;
    for (;;) {
      silent.push_back(knock());
      ++counts_.held;
      if (silent.size() == 300) silent.clear();
    }
  }
  void babble() {
    std::mt19937 random(11);
    for (;;) {
      const Socket socket = knock();
      std::string bytes(random() % 3000, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      comm::write_all(socket, bytes.data(), bytes.size(), steady_seconds() + 0.1);
      ++counts_.garbage;
    }
  }
  void claim(const Membership& self) {
    const Socket socket = knock();
    ++counts_.claims;
    std::string why;
    try {
      if (comm::introduce(socket, self, 0, Purpose::kJoin, steady_seconds() + 0.5, &why)) ++counts_.joins;
    } catch (const Error& error) {
      why = error.message();
    }
    if (self.job != job_ && why.find("config") != std::string::npos) ++counts_.told;
  }
  void replay() {
    const Socket socket = knock();
    ++counts_.replays;
    comm::write_all(socket, recorded_.data(), recorded_.size(), steady_seconds() + 0.5);
    std::string answer(80 + 8, '\0');  // a challenge and a verdict
    if (!comm::read_all(socket, answer.data(), answer.size(), steady_seconds() + 0.5)) return;
    if (answer.substr(80) == std::string(8, '\0')) ++counts_.joins;
  }

  const comm::HostPort address_;
  const std::string job_, recorded_;
  Counts& counts_;
  std::shared_ptr<const comm::Secret> guess_;
  pid_t pid_ = -1;
};

class LaunchAttack : public cli_test::CommandTest {
 protected:
  /// Returns the name by which the command's ranks identify their job. A rank that is refused reports it.
  std::string job_name(const std::string& words) const {
    comm::StoreServer other({"127.0.0.1", "0"}, {0, kWorld, "another job", nullptr}, 10);
    const std::string err =
        run("train " + words + fmt::format(" --comm 127.0.0.1:{} --rank 1 --world {}", other.port(), kWorld))
            .err;
    constexpr std::string_view kBefore = "belongs to the job \"";
    const size_t found = err.find(kBefore), begin = found + kBefore.size();
    EXPECT_NE(found, std::string::npos) << err;
    return found == std::string::npos ? "" : err.substr(begin, err.find('"', begin) - begin);
  }
};

TEST_F(LaunchAttack, NoOtherUserOfTheMachineJoinsOrHindersALaunch) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  if (!std::filesystem::exists(std::filesystem::path(HAWSER_MODULE_FOLDER) / comm::kIdentityLibrary))
    GTEST_SKIP() << "libhawser_identity.so is not built (Debian: libsodium-dev)";
  const char* const given = std::getenv("HAWSER_LAUNCHES");
  const int launches = given != nullptr ? std::atoi(given) : 4;
  const std::string words =
      "config.json --data text.txt --set /mesh/dp_shard=3 --set /train/steps=4 "
      "--set /train/eval_every=0 --set /checkpoint/every=0";
  const std::string command = "launch -n 3 --address 127.0.0.1:";
  const std::string port = cli_test::free_port();
  succeed(command + port + " train " + words + " --out alone");
  const auto rows = cli_test::metric_rows(folder_ / "alone");
  ASSERT_EQ(rows.size(), 4u);
  auto* const counts = static_cast<Counts*>(
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  {
    const Stranger stranger({"127.0.0.1", port}, job_name(words), counts);
    for (int i = 0; i < launches; ++i) {
      const std::string out = "run" + std::to_string(i);
      succeed(command + port + " train " + words + " --out " + out);
      EXPECT_EQ(cli_test::metric_rows(folder_ / out), rows);
    }
  }
  EXPECT_EQ(counts->joins, 0);
  EXPECT_EQ(counts->told, 0);
  EXPECT_GT(counts->claims, 0);
  std::printf("%d launches, %ld connections (%ld of garbage, %ld held, %ld claims, %ld replays): %ld joins\n",
              launches, long(counts->connections), long(counts->garbage), long(counts->held),
              long(counts->claims), long(counts->replays), long(counts->joins));
  munmap(counts, sizeof(Counts));
}

}  // namespace launch_attack_test
}  // namespace hawser::testing
