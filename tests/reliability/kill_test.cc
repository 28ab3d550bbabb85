// Kill test: kill -9 at random moments of saving. Durable checkpoints stay intact and load, every visible
// checkpoint is complete, and the next run removes leftovers. HAWSER_KILLS sets the number of kills (default
// 200), HAWSER_SEED the seed, which is printed.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/folder_names.h"
#include "engine/checkpoint/reader.h"
#include "tests/harness/small_config.h"

extern char** environ;

namespace hawser {
namespace kill_test {

namespace fs = std::filesystem;

int64_t number_from(const char* variable, int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : otherwise;
}

/// A running save_loop and the last step that it reported as durable.
class Victim {
 public:
  Victim(const std::string& folder, const std::string& tokens, const std::string& mode) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    std::string words[] = {HAWSER_SAVE_LOOP, folder, tokens, mode};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    const int error = posix_spawn(&pid_, HAWSER_SAVE_LOOP, &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    from_ = ends[0];
    if (error != 0) throw std::runtime_error("cannot run " HAWSER_SAVE_LOOP);
  }
  ~Victim() { ::close(from_); }

  /// Waits for the first line of save_loop.
  void wait_until_saving() { read_some(); }
  /// True if it has a file open that has no name and is in `folder`.
  bool has_unnamed_file_in(const std::string& folder) const {
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
      std::error_code closed;
      const std::string target = fs::read_symlink(entry.path(), closed);
      if (target.rfind(folder + "/", 0) == 0 && target.find(" (deleted)") != target.npos) return true;
    }
    return false;
  }
  /// Returns in *durable the last step that save_loop reported before it died; returns false if it had ended
  /// by itself.
  bool kill_now(int64_t* durable) {
    ::kill(pid_, SIGKILL);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    while (read_some()) continue;
    // The kill may have cut the last line; an incomplete line does not count.
    const size_t end = text_.rfind('\n');
    if (end != std::string::npos) {
      const size_t begin = end == 0 ? std::string::npos : text_.rfind('\n', end - 1);
      *durable = std::strtoll(text_.c_str() + (begin == std::string::npos ? 0 : begin + 1), nullptr, 10);
    }
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

 private:
  bool read_some() {
    char bytes[512];
    const ssize_t n = ::read(from_, bytes, sizeof bytes);
    if (n > 0) text_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }

  pid_t pid_ = 0;
  int from_ = -1;
  std::string text_;
};

struct Leftovers {
  std::set<std::string> temporary;
  int64_t newest = 0;
};

/// Checks that every visible checkpoint is complete; returns the newest one and the number of leftovers.
Leftovers look_at(const std::string& folder) {
  Leftovers found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (checkpoint::is_temporary_name(name) || name == "best.next") found.temporary.insert(name);
    const auto step = checkpoint::step_of_name(name);
    if (!step && name != "best") continue;
    try {
      checkpoint::Reader::open(entry.path())->verify();
      found.newest = std::max(found.newest, step.value_or(0));
    } catch (const Error& error) {
      ADD_FAILURE() << name << " is visible and not whole: " << error.message();
    }
  }
  return found;
}

TEST(Kill, LosesNothingThatWasDurableAndShowsNothingThatIsNot) {
  const testing::ScratchFolder scratch;
  const std::string tokens = testing::write_tokens(scratch, 20000), folder = scratch.file("run");
  fs::create_directories(folder);
  const auto seed =
      static_cast<uint64_t>(number_from("HAWSER_SEED", static_cast<int64_t>(std::random_device{}())));
  const int64_t kills = number_from("HAWSER_KILLS", 200);
  std::printf("seed %llu (HAWSER_SEED), %lld kills (HAWSER_KILLS)\n", static_cast<unsigned long long>(seed),
              static_cast<long long>(kills));
  std::mt19937_64 random(seed);
  constexpr const char* kModes[] = {"sync", "async", "train"};
  int64_t durable = 0, during_saves = 0;
  std::set<std::string> known;
  for (int64_t i = 0; i < kills && !HasFailure(); ++i) {
    {
      Victim victim(folder, tokens, kModes[i % 3]);
      if (durable > 0 || i % 3 != 2) victim.wait_until_saving();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % (i % 4 == 0 ? 80000 : 15000)));
      EXPECT_TRUE(victim.kill_now(&durable)) << "it ended by itself";
    }
    const Leftovers found = look_at(folder);
    EXPECT_GE(found.newest, durable) << "kill " << i << ": a checkpoint that was durable is gone";
    durable = found.newest;
    during_saves +=
        std::includes(known.begin(), known.end(), found.temporary.begin(), found.temporary.end()) ? 0 : 1;
    known = found.temporary;
  }
  std::printf("step %lld; %lld kills met a save\n", static_cast<long long>(durable),
              static_cast<long long>(during_saves));
  EXPECT_GT(during_saves, kills / 20) << "hardly a kill met a save: the drill drills nothing";
  checkpoint::retain(folder, 2);
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_FALSE(checkpoint::is_temporary_name(entry.path().filename().string())) << entry.path();
}

/// The files of /offload have no names, so they end with the process.
TEST(Kill, LeavesNothingInTheOffloadFolder) {
  const testing::ScratchFolder scratch;
  const std::string tokens = testing::write_tokens(scratch, 20000), folder = scratch.file("offload");
  fs::create_directories(folder);
  std::mt19937_64 random(
      static_cast<uint64_t>(number_from("HAWSER_SEED", static_cast<int64_t>(std::random_device{}()))));
  for (int i = 0; i < 10 && !HasFailure(); ++i) {
    Victim victim(folder, tokens, "offload");
    victim.wait_until_saving();
    EXPECT_TRUE(victim.has_unnamed_file_in(fs::canonical(folder)));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    int64_t step = 0;
    EXPECT_TRUE(victim.kill_now(&step)) << "it ended by itself";
    EXPECT_GT(step, 0);
    EXPECT_TRUE(fs::is_empty(folder));
  }
}

}  // namespace kill_test
}  // namespace hawser
