// No-memory rank test: two ranks connected over TCP run out of memory in the middle of a call: all
// allocations from the N-th on fail, on every thread of both. Each rank returns a clear status at once
// instead of waiting for the other, the process lives, and when memory is available again a new comm and a
// new engine continue training. Both ranks are in one process, so that both run out of memory at the same
// moment, including the rendezvous and the watches.
#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "capi/include/hawser.h"
#include "tests/reliability/failing_calls.h"

namespace hawser {
namespace no_memory_ranks_test {

namespace fs = std::filesystem;
using testing::Extent;
using testing::FailAt;
using testing::Operation;

constexpr long kRunsInCi = 25;        // runs for each call
constexpr long kParts = 16;           // processes that divide a complete walk
constexpr double kAtOnceSeconds = 8;  // far below the timeout of calls
constexpr int32_t kRanks = 2;

/// The thread of rank 1, created before memory runs out.
class Partner {
 public:
  Partner() : thread_([this] { main_loop(); }) {}
  ~Partner() {
    say(kEnd);
    thread_.join();
  }
  void start(const std::function<int32_t()>* call) {
    call_ = call;
    say(kCall);
  }
  int32_t result() {
    state_.wait(kCall);
    return status_;
  }

 private:
  static constexpr int kIdle = 0, kCall = 1, kEnd = 2;
  void say(int state) {
    state_ = state;
    state_.notify_all();
  }
  void main_loop() {
    for (;;) {
      state_.wait(kIdle);
      if (state_ == kEnd) return;
      status_ = (*call_)();
      say(kIdle);
    }
  }
  const std::function<int32_t()>* call_ = nullptr;
  int32_t status_ = HWS_OK;
  std::atomic<int> state_{kIdle};
  std::thread thread_;
};

/// Takes this thread's last error, which must match `status`.
std::string words_of(int32_t status) {
  hws_error* error = nullptr;
  if (status == HWS_OK) return "";
  EXPECT_EQ(hws_error_take(&error), HWS_OK);
  EXPECT_EQ(hws_error_code(error), status);
  const std::string words = hws_error_message(error);
  EXPECT_NE(words, "");
  hws_error_destroy(error);
  return words;
}

struct Outcome {
  int32_t status[kRanks] = {};
  std::string words[kRanks];
  double seconds = 0;
  bool ok() const { return status[0] == HWS_OK && status[1] == HWS_OK; }
};

/// Two ranks and the handles that the host program holds for each.
class Job {
 public:
  Job() {
    std::string name = (fs::temp_directory_path() / "hawser-dry-XXXXXX").string();
    folder = mkdtemp(name.data());
    std::ofstream text(folder + "/text.txt");
    for (int i = 0; i < 300; ++i) text << "line " << i % 10 << " of a text that is easy to learn\n";
    const std::string json = R"({"seed": 3, "cpu": {"threads": 1},
      "model": {"vocab_size": 256, "context": 8, "layers": 1, "width": 16, "heads": 2, "mlp": "gelu_tanh",
                "norm": "layer_norm", "position": "learned", "tied_head": true},
      "data": {"format": "text", "vocabulary": "bytes", "path": ")" +
                             folder + R"(/text.txt"},
      "batch": {"micro_batch": 1, "global_batch": 2, "sequence": 8},
      "mesh": {"dp_shard": 2}, "zero": {"stage": 3},
      "optimizer": {"learning_rate": 0.01}, "train": {"steps": 1000000}, "comm": {"timeout_seconds": 30}})";
    EXPECT_EQ(hws_config_parse(json.data(), json.size(), HWS_FORMAT_JSON, &config), HWS_OK);
  }
  ~Job() {
    end();
    hws_config_destroy(config);
    fs::remove_all(folder);
  }

  /// Runs call(rank) on both ranks, with memory until the nth allocation (-1: always).
  Outcome both(const std::function<int32_t(int32_t)>& call, long nth = -1, long* seen = nullptr) {
    Outcome out;
    const std::function<int32_t()> second = [&] {
      const int32_t status = call(1);
      return status;
    };
    const auto begin = std::chrono::steady_clock::now();
    {
      const FailAt fail(Operation::kAllocation, ENOMEM, nth, Extent::kAllFrom);
      partner_.start(&second);
      out.status[0] = call(0);
      out.status[1] = partner_.result();
      if (seen != nullptr) *seen = fail.seen();
    }
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const std::function<int32_t()> take = [&] { return out.words[1] = words_of(out.status[1]), HWS_OK; };
    partner_.start(&take);
    out.words[0] = words_of(out.status[0]);
    partner_.result();
    return out;
  }

  int32_t meet(int32_t rank) {
    hws_comm_address a = {};
    a.struct_size = sizeof(a);
    a.rank = rank;
    a.world_size = kRanks;
    a.address = address.c_str();
    a.timeout_seconds = 3;
    return hws_comm_create_address(&a, &comms[rank]);
  }
  int32_t create(int32_t rank) { return hws_engine_create_ranks(config, comms[rank], 0, &engines[rank]); }
  /// Creates both comms and engines; the engines take a step unless the first step is to fail.
  void begin(bool steps = true) {
    for (int i = 0; comms[0] == nullptr || comms[1] == nullptr; ++i) {  // a port may be taken meanwhile
      end();
      address = free_address();
      const Outcome met = both([&](int32_t rank) { return meet(rank); });
      ASSERT_TRUE(met.ok() || i < 5) << met.words[0] << "; " << met.words[1];
    }
    const Outcome made = both([&](int32_t rank) { return create(rank); });
    ASSERT_TRUE(made.ok()) << made.words[0] << "; " << made.words[1];
    if (!steps) return;
    const Outcome stepped = both([&](int32_t rank) { return hws_engine_train_step(engines[rank], nullptr); });
    ASSERT_TRUE(stepped.ok()) << stepped.words[0] << "; " << stepped.words[1];
  }
  void end_engines() {
    both([&](int32_t rank) { return hws_engine_destroy(std::exchange(engines[rank], nullptr)), HWS_OK; });
  }
  void end() {
    end_engines();
    both([&](int32_t rank) { return hws_comm_destroy(std::exchange(comms[rank], nullptr)), HWS_OK; });
  }

  static std::string free_address() {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&own), size), 0);
    EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size), 0);
    ::close(fd);
    return "127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  }

  std::string folder, address;
  hws_config* config = nullptr;
  hws_comm* comms[kRanks] = {};
  hws_engine* engines[kRanks] = {};

 private:
  Partner partner_;
};

class NoMemoryRanks : public ::testing::Test {
 protected:
  /// Tests `call` for all N. Before it, `prepare` creates the necessary state, with memory available.
  void walk(const char* name, const std::function<void()>& prepare,
            const std::function<int32_t(int32_t)>& call, bool may_wait = false) {
    if (HasFailure()) return;
    prepare();
    long total = 0;
    const Outcome whole = job_.both(call, -1, &total);
    ASSERT_TRUE(whole.ok()) << name << ": " << whole.words[0] << "; " << whole.words[1];
    const long stride = std::getenv("HAWSER_PART") ? kParts : std::max<long>(1, total / kRunsInCi);
    long runs = 0, told = 0;
    for (long n = first(name, stride); n <= total; n += stride) {
      ASSERT_NO_FATAL_FAILURE(prepare());
      const Outcome dry = job_.both(call, n);
      ++runs, told += !dry.ok();
      if (!dry.ok()) expect_clear(dry, may_wait);
      if (HasFailure()) {
        ADD_FAILURE() << name << ", allocation " << n << " of " << total;
        return;
      }
    }
    std::printf("%-8s %6ld of %6ld without memory, %6ld told\n", name, runs, total, told);
  }

  /// HAWSER_PART, from 0, chooses one of kParts processes that together walk all N. One process cannot walk
  /// all, because the memory that the C++ library (GCC 12) reserves for exceptions fragments, and after some
  /// thousand exceptions without any other memory it ends the process. HAWSER_CALL and HAWSER_NTH begin a
  /// walk elsewhere; HAWSER_SEED repeats one.
  static long first(const std::string& name, long stride) {
    static const uint64_t seed = [] {
      const char* given = std::getenv("HAWSER_SEED");
      const uint64_t s = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
      std::printf("HAWSER_SEED=%llu\n", static_cast<unsigned long long>(s));
      return s;
    }();
    const char *call = std::getenv("HAWSER_CALL"), *nth = std::getenv("HAWSER_NTH");
    if (call && nth) return name == call ? std::atol(nth) : LONG_MAX - stride;
    if (const char* part = std::getenv("HAWSER_PART")) return 1 + std::atol(part);
    return 1 + static_cast<long>(std::mt19937_64(seed)() % static_cast<uint64_t>(stride));
  }

  static void expect_clear(const Outcome& dry, bool may_wait) {
    bool dry_somewhere = false;
    for (const int32_t status : dry.status) {
      dry_somewhere |= status == HWS_OUT_OF_MEMORY;
      EXPECT_TRUE(status == HWS_OK || status == HWS_OUT_OF_MEMORY || status == HWS_UNAVAILABLE ||
                  (may_wait && status == HWS_TIMEOUT))
          << hws_status_name(status);
    }
    EXPECT_TRUE(dry_somewhere);
    if (!may_wait) {
      EXPECT_LT(dry.seconds, kAtOnceSeconds) << "the others were not told";
    }
    if (HasFailure()) {
      ADD_FAILURE() << "rank 0: " << dry.words[0] << "; rank 1: " << dry.words[1] << "; " << dry.seconds
                    << " s";
    }
  }

  Job job_;
};

TEST_F(NoMemoryRanks, OverTcp) {
  const auto nobody = [&] {
    job_.end();
    job_.address = Job::free_address();
  };
  const auto met = [&] {
    job_.end();
    job_.address = Job::free_address();
    const Outcome outcome = job_.both([&](int32_t rank) { return job_.meet(rank); });
    ASSERT_TRUE(outcome.ok()) << outcome.words[0] << "; " << outcome.words[1];
  };
  const auto lives = [&] {
    job_.end();
    fs::remove_all(job_.folder + "/other");
    job_.begin();
  };
  const std::string saved = job_.folder + "/saved", other = job_.folder + "/other";
  lives();
  ASSERT_TRUE(job_.both([&](int32_t r) { return hws_checkpoint_save(job_.engines[r], saved.c_str()); }).ok());
  // A rank that fails before it has connected to the others cannot notify them.
  walk(
      "meet", nobody, [&](int32_t r) { return job_.meet(r); }, true);
  walk("create", met, [&](int32_t r) { return job_.create(r); });
  const auto created = [&] {
    job_.end();
    job_.begin(false);
  };
  walk("1st step", created, [&](int32_t r) { return hws_engine_train_step(job_.engines[r], nullptr); });
  walk("step", lives, [&](int32_t r) { return hws_engine_train_step(job_.engines[r], nullptr); });
  walk("eval", lives, [&](int32_t r) {
    double loss = 0;
    return hws_engine_eval(job_.engines[r], nullptr, 1, &loss, nullptr);
  });
  walk("save", lives, [&](int32_t r) { return hws_checkpoint_save(job_.engines[r], other.c_str()); });
  walk("load", lives, [&](int32_t r) { return hws_checkpoint_load(job_.engines[r], saved.c_str(), 0); });
  lives();
}

}  // namespace no_memory_ranks_test
}  // namespace hawser
