// Failure walk: the N-th allocation, file operation or thread creation of a call fails, for every N until the
// call has no more of them. Each time there is a clear status, nothing is left behind, and repeating the call
// works. A second walk lets all allocations from the N-th on fail, which leaves no memory for an error's
// text, a handler or a destructor. The test covers each kind of call: config, engine, steps, queries,
// synchronous and asynchronous saves, load, import and export of Hugging Face folders, and destruction.
//
// Each N needs one run of the call, so CI uses a stride, from a random first N whose seed is printed
// (HAWSER_SEED repeats it); HAWSER_FULL=1 tests every N.
#include <errno.h>
#include <gtest/gtest.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "engine/comm/local/meeting.h"
#include "tests/reliability/failing_calls.h"
#include "tests/reliability/host.h"

namespace hawser {
namespace fail_at_test {

namespace fs = std::filesystem;
using testing::Extent;
using testing::FailAt;
using testing::Held;
using testing::Host;
using testing::Operation;
using testing::require;
using testing::seed;

constexpr long kRunsInCi = 60;  // runs for each call and kind of failure

/// A call, and how to undo its success so that the call can be repeated.
struct Stage {
  const char* name;
  std::function<int32_t()> call;
  std::function<void()> undo;
};

class FailAtTest : public ::testing::TestWithParam<int32_t> {
 protected:
  std::function<void()> revive_;         ///< creates a new engine
  long idle_threads_ = 0;                ///< number of threads while no save runs
  std::function<void()> after_failure_;  ///< further actions of the host program after a failure
  Extent extent_ = Extent::kOne;

  /// Tests a stage for all N of a kind of failure.
  void walk(const Stage& stage, Operation operation, int error, const std::vector<int32_t>& codes) {
    const long total = count(stage, operation, error);
    const long stride = std::getenv("HAWSER_FULL") ? 1 : std::max<long>(1, total / kRunsInCi);
    std::mt19937_64 random(seed());
    long runs = 0, told = 0;
    for (long n = first(stage, stride, random()); n <= total; n += stride) {
      ++runs;
      told += fail_once(stage, operation, error, n, codes);
      if (HasFailure()) {
        ADD_FAILURE() << stage.name << ", operation " << n << " of " << total << ", error " << error;
        return;
      }
    }
    std::printf("%-18s %6ld of %6ld made to fail, %6ld told\n", stage.name, runs, total, told);
  }

 private:
  /// HAWSER_CALL and HAWSER_NTH repeat one failure, for a debugger with a breakpoint at now_it_fails.
  static long first(const Stage& stage, long stride, uint64_t random) {
    const char *call = std::getenv("HAWSER_CALL"), *nth = std::getenv("HAWSER_NTH");
    if (!call || !nth) return 1 + static_cast<long>(random % static_cast<uint64_t>(stride));
    return stage.name == std::string(call) ? std::atol(nth) : LONG_MAX - stride;
  }

  /// Counts the operations of a run in which none fails. Before it, one run in which the first operation
  /// fails and one complete run create everything that is created or kept once, such as the message of the
  /// last failed save.
  long count(const Stage& stage, Operation operation, int error) {
    for (int i = 0; i < 2; ++i) {
      int32_t status = HWS_OK;
      {
        const FailAt first(operation, error, 1);
        status = stage.call();
      }
      if (status == HWS_OK)
        stage.undo();
      else if (revive_)
        revive_();
      hws_error* error_of_first = nullptr;
      if (hws_error_take(&error_of_first) == HWS_OK) hws_error_destroy(error_of_first);
    }
    long total = 0;
    for (int i = 0; i < 2; ++i) {
      const FailAt none(operation, error, -1);
      require(stage.call(), stage.name);
      total = none.seen();
      stage.undo();
    }
    return total;
  }

  /// Returns true if the call reported the failure, false if it continued without it. The memory that the
  /// library keeps for the last failure, such as the message of a failed save, may differ in size from the
  /// memory that it kept before; a leak would grow again in a repetition.
  bool fail_once(const Stage& stage, Operation operation, int error, long n,
                 const std::vector<int32_t>& codes) {
    Held before = testing::held_when_idle(idle_threads_);
    Outcome outcome = fail_and_recover(stage, operation, error, n, codes);
    Held after = testing::held_when_idle(idle_threads_);
    if (!outcome.revived && loses_blocks(before, after)) {
      before = after;
      outcome = fail_and_recover(stage, operation, error, n, codes);
      after = testing::held_when_idle(idle_threads_);
    }
    expect_nothing_lost(before, after, operation, outcome.revived);
    return outcome.told;
  }

  struct Outcome {
    bool told = false;     ///< the call reported it
    bool revived = false;  ///< ranks had to be created again
  };

  Outcome fail_and_recover(const Stage& stage, Operation operation, int error, long n,
                           const std::vector<int32_t>& codes) {
    int32_t status = HWS_OK;
    {
      const FailAt fail(operation, error, n, extent_);
      status = stage.call();
    }
    if (status == HWS_OK) {
      stage.undo();
      return {};
    }
    bool revived = false;
    expect_clear_error(status, codes);
    if (after_failure_) after_failure_();
    int32_t again = stage.call();
    if (again == HWS_ABORTED && GetParam() > 1) {  // one rank failed alone: the error gives advice
      expect_clear_error(again, {HWS_ABORTED});
      revive_();
      revived = true;
      again = stage.call();
    }
    if (again == HWS_ALREADY_EXISTS && GetParam() > 1) {  // saved before ranks could notify each other
      stage.undo();
      again = stage.call();
    }
    require(again, "the same call again");
    stage.undo();
    return {true, revived};
  }

  /// A JSON value whose constructor fails leaks the nodes that it has made so far (nlohmann 3.11), each with
  /// at most two strings. Nothing else may be lost.
  static bool loses_blocks(const Held& before, const Held& after) {
    return after.blocks - before.blocks > 3 * (after.json - before.json);
  }

  static void expect_nothing_lost(const Held& before, const Held& after, Operation operation, bool revived) {
    EXPECT_EQ(after.files, before.files) << "open files";
    EXPECT_EQ(after.threads, before.threads) << "threads";
    if (revived) return;  // a new engine holds other memory than a used one
    EXPECT_EQ(after.pages, before.pages) << "mapped pages";
    EXPECT_FALSE(loses_blocks(before, after)) << after.blocks - before.blocks << " blocks";
    EXPECT_TRUE(operation == Operation::kAllocation || after.json == before.json);
  }

  static void expect_clear_error(int32_t status, const std::vector<int32_t>& codes) {
    hws_error* error = nullptr;
    EXPECT_EQ(hws_error_take(&error), HWS_OK);
    EXPECT_NE(std::find(codes.begin(), codes.end(), status), codes.end())
        << hws_status_name(status) << ": " << hws_error_message(error);
    EXPECT_EQ(hws_error_code(error), status);
    EXPECT_STRNE(hws_error_message(error), "");
    hws_error_destroy(error);
  }
};

/// Walks the life of an engine, call by call.
class Life : public FailAtTest {
 protected:
  void walk_all(Operation operation, int error, const std::vector<int32_t>& codes) {
    Host host(GetParam());
    const auto walk_it = [&](const char* name, std::function<int32_t()> call, std::function<void()> undo) {
      if (!HasFailure()) walk({name, std::move(call), std::move(undo)}, operation, error, codes);
    };
    const auto drop = [&] { hws_buffer_destroy(std::exchange(host.out, nullptr)); };
    const auto nothing = [] {};

    idle_threads_ = testing::idle_threads();
    hws_config* const config = host.config;
    walk_it(
        "parse", [&] { return host.parse(); },
        [&] { hws_config_destroy(std::exchange(host.config, config)); });
    walk_it(
        "validate", [&] { return hws_config_validate(host.config, &host.out); }, drop);
    walk_it(
        "plan",
        [&] {
          hws_plan* plan = nullptr;
          const int32_t status = hws_plan_create(host.config, &plan);
          hws_plan_destroy(plan);
          return status;
        },
        nothing);
    walk_it(
        "create", [&] { return host.create(); },
        [&] { hws_engine_destroy(std::exchange(host.engine, nullptr)); });
    if (HasFailure()) return;
    walk_first_step(host, walk_it);
    if (HasFailure()) return;
    host.live();
    idle_threads_ = testing::idle_threads();
    walk_it(
        "destroy",
        [&] {
          hws_engine_destroy(std::exchange(host.engine, nullptr));
          return HWS_OK;
        },
        [&] { host.live(); });
    walk_engine(host, walk_it, drop, nothing, operation, codes);
  }

 private:
  /// Walks the first step, which creates everything that is created once, so every failure needs a new
  /// engine.
  template <typename Walk>
  void walk_first_step(Host& host, const Walk& walk_it) {
    require(host.create(), "create");
    idle_threads_ = testing::idle_threads();
    revive_ = [&host] {
      hws_engine_destroy(std::exchange(host.engine, nullptr));
      require(host.create(), "create");
    };
    walk_it(
        "first step", [&] { return hws_engine_train_step(host.engine, nullptr); }, revive_);
    revive_ = nullptr;
    hws_engine_destroy(std::exchange(host.engine, nullptr));
  }

  /// Makes a save fail, because an engine keeps the message of its last failed save.
  static void keep_words_of_a_failed_save(Host& host, const std::string& path) {
    hws_op* op = nullptr;
    const FailAt write(Operation::kFile, EIO, 20);
    require(hws_checkpoint_save_async(host.engine, path.c_str(), &op), "save");
    EXPECT_EQ(hws_op_wait(op, -1), HWS_IO);
    hws_op_destroy(op);
  }

  /// Verifies what a call wrote at `path`, and removes it.
  static std::function<void()> gone(const std::string& path) {
    return [path] {
      if (fs::exists(path + "/manifest.json")) require(hws_checkpoint_verify(path.c_str()), "verify");
      fs::remove_all(path);
      for (const auto& left : fs::directory_iterator(fs::path(path).parent_path()))
        EXPECT_NE(left.path().extension(), ".tmp") << left.path();
    };
  }

  template <typename Walk, typename Drop, typename Nothing>
  void walk_engine(Host& host, const Walk& walk_it, const Drop& drop, const Nothing& nothing,
                   Operation operation, const std::vector<int32_t>& codes) {
    const std::string run = host.path("run"), saved = run + "/step-1", other = host.path("other"),
                      never = host.path("never");
    keep_words_of_a_failed_save(host, never);
    revive_ = [&host, never] {
      hws_engine_destroy(std::exchange(host.engine, nullptr));
      host.live();
      keep_words_of_a_failed_save(host, never);
    };
    fs::create_directory(run);
    require(hws_checkpoint_save(host.engine, saved.c_str()), "save");
    walk_it(
        "step", [&] { return hws_engine_train_step(host.engine, nullptr); }, nothing);
    walk_it(
        "info", [&] { return hws_engine_info(host.engine, &host.out); }, drop);
    walk_it(
        "metrics", [&] { return hws_engine_metrics(host.engine, &host.out); }, drop);
    walk_it(
        "eval",
        [&] {
          double loss = 0;
          return hws_engine_eval(host.engine, nullptr, 1, &loss, nullptr);
        },
        nothing);
    walk_it(
        "save", [&] { return hws_checkpoint_save(host.engine, other.c_str()); }, gone(other));
    walk_it(
        "save_async",
        [&] {
          hws_op* op = nullptr;
          int32_t status = hws_checkpoint_save_async(host.engine, other.c_str(), &op);
          if (status == HWS_OK) status = hws_op_wait(op, -1);
          hws_op_destroy(op);
          return status;
        },
        gone(other));
    // If a load fails after it has begun to change weights, the engine must load before it does anything
    // else.
    int half_loads = 0;
    after_failure_ = [&] {
      hws_error* error_of_step = nullptr;
      half_loads += hws_engine_train_step(host.engine, nullptr) == HWS_FAILED_PRECONDITION;
      if (hws_error_take(&error_of_step) == HWS_OK) hws_error_destroy(error_of_step);
    };
    walk_it(
        "load", [&] { return hws_checkpoint_load(host.engine, saved.c_str(), 0); }, nothing);
    walk_it(
        "load latest", [&] { return hws_checkpoint_load_latest(host.engine, run.c_str(), 0, &host.out); },
        drop);
    after_failure_ = nullptr;
    if (operation == Operation::kFile && !codes.empty() && host.ranks == 1) {
      EXPECT_GT(half_loads, 0);
    }
    walk_folders(host, walk_it, nothing, saved);
  }

  template <typename Walk, typename Nothing>
  void walk_folders(Host& host, const Walk& walk_it, const Nothing& nothing, const std::string& saved) {
    const std::string hf = host.path("hf"), hf2 = host.path("hf2"), imported = host.path("imported");
    require(hws_checkpoint_export(saved.c_str(), hf.c_str(), ""), "export");
    walk_it(
        "verify", [&] { return hws_checkpoint_verify(saved.c_str()); }, nothing);
    walk_it(
        "export", [&] { return hws_engine_export(host.engine, hf2.c_str(), ""); }, gone(hf2));
    walk_it(
        "export checkpoint", [&] { return hws_checkpoint_export(saved.c_str(), hf2.c_str(), "bf16"); },
        gone(hf2));
    walk_it(
        "import", [&] { return hws_checkpoint_import(hf.c_str(), imported.c_str(), nullptr); },
        gone(imported));
  }
};

// If an allocation fails while one rank creates a group, another rank must be able to wake all ranks that
// wait in groups.
TEST(Groups, WithoutMemoryForOneTheOthersAreWoken) {
  bool made = false;
  for (long n = 1; !made; ++n) {
    comm::Session session(2);
    {
      const FailAt failure(Operation::kAllocation, ENOMEM, n);
      try {
        session.meeting({0, 1}, "data", 0);
        made = !failure.happened();
      } catch (const std::bad_alloc&) {
      }
    }
    session.notify_all();
  }
}

TEST_P(Life, Allocations) { walk_all(Operation::kAllocation, ENOMEM, {HWS_OUT_OF_MEMORY}); }
TEST_P(Life, NoMemoryFromThere) {
  extent_ = Extent::kAllFrom;
  walk_all(Operation::kAllocation, ENOMEM, {HWS_OUT_OF_MEMORY});
}
TEST_P(Life, FilesFail) { walk_all(Operation::kFile, EIO, {HWS_IO}); }
TEST_P(Life, DiskFull) { walk_all(Operation::kFile, ENOSPC, {HWS_IO}); }
TEST_P(Life, InterruptedFiles) { walk_all(Operation::kFile, EINTR, {}); }
TEST_P(Life, ShortTransfers) { walk_all(Operation::kFile, testing::kShort, {}); }
TEST_P(Life, Threads) { walk_all(Operation::kThread, EAGAIN, {HWS_UNAVAILABLE}); }

INSTANTIATE_TEST_SUITE_P(Ranks, Life, ::testing::Values(1, 2));

}  // namespace fail_at_test
}  // namespace hawser
