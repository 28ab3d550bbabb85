// Disk faults of /offload: weights, moments and activations are in a file, and the N-th operation on this
// file fails, for every N until a call has no more of them. Each time the error names the folder, and nothing
// is left behind. A failure in forward_backward only discards the step; after a failure in commit, the engine
// refuses every call until a checkpoint is loaded. Interrupted and short transfers are no failures.
//
// CI uses a stride from a random N, whose seed is printed (HAWSER_SEED repeats it); HAWSER_FULL=1
// tests every N.
#include <errno.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/reliability/failing_calls.h"
#include "tests/reliability/host.h"

namespace hawser {
namespace offload_fault_test {

namespace fs = std::filesystem;
using testing::Extent;
using testing::FailAt;
using testing::Held;
using testing::Host;
using testing::kShort;
using testing::Operation;
using testing::require;

constexpr long kRunsInCi = 8;  // runs for each call and kind of failure
constexpr const char* kMixed = "failed after it had changed some weights; load a checkpoint";
constexpr const char* kTensor = "wte.weight";
constexpr size_t kElements = 256 * 16;

uint64_t seed() {
  static const uint64_t value = [] {
    const char* given = std::getenv("HAWSER_SEED");
    const uint64_t s = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
    std::printf("HAWSER_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return value;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

/// Returns the message of the last error of this thread.
std::string message(int32_t status) {
  hws_error* error = nullptr;
  EXPECT_EQ(hws_error_take(&error), HWS_OK);
  EXPECT_EQ(hws_error_code(error), status);
  std::string text = hws_error_message(error);
  hws_error_destroy(error);
  return text;
}

std::string make_folder() {
  std::string name = (fs::temp_directory_path() / "hawser-offload-fault-XXXXXX").string();
  return mkdtemp(name.data());
}

std::string section(const std::string& folder) {
  return R"("precision": "bf16", "offload": {"optimizer": "disk", "parameters": "disk", "activations": "disk",
            "folder": ")" +
         folder + R"("}, )";
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A call of the host program.
struct Stage {
  const char* name;
  std::function<int32_t()> call;
  std::function<void()> undo;                                ///< verifies the result, then undoes the call
  std::function<int32_t()> prepare = [] { return HWS_OK; };  ///< comes before the call, and does not fail
  std::function<void()> after_failure = [] {};
};

/// What became of the failures of a stage.
struct Counts {
  long runs = 0, told = 0;  ///< failures made and reported
  long mixed = 0;           ///< the engine refused the same call again until a checkpoint was loaded
};

class OffloadFault : public ::testing::TestWithParam<int32_t> {
 protected:
  OffloadFault() : away_(make_folder()), host_(GetParam(), 5, section(away_)) {}
  ~OffloadFault() override {
    hws_engine_destroy(std::exchange(host_.engine, nullptr));
    fs::remove_all(away_);
  }

  Counts walk(const Stage& stage, int error) {
    const long total = count(stage, error);
    Counts counts;
    for (const long n : chosen(total)) {
      ++counts.runs;
      fail_once(stage, error, n, &counts);
      if (HasFailure()) {
        ADD_FAILURE() << stage.name << ", operation " << n << " of " << total << ", error " << error;
        return counts;
      }
    }
    std::printf("%-18s error %3d %5ld of %5ld made to fail, %5ld told, %5ld need a load\n", stage.name, error,
                counts.runs, total, counts.told, counts.mixed);
    EXPECT_TRUE(total > 0 || error == kShort) << stage.name;
    return counts;
  }

  /// Starts an engine in the state of the checkpoint saved().
  void start() {
    host_.live();
    if (!fs::exists(saved())) require(hws_checkpoint_save(host_.engine, saved().c_str()), "save");
    load();
    idle_threads_ = testing::held().threads;
  }

  void load() { require(hws_checkpoint_load(host_.engine, saved().c_str(), 0), "load"); }
  std::string saved() const { return host_.path("saved"); }

  /// Loss and gradient norm of the next steps.
  std::vector<double> follow(int steps) {
    std::vector<double> numbers;
    for (int i = 0; i < steps; ++i) {
      hws_step_result result{};
      result.struct_size = sizeof result;
      require(hws_engine_train_step(host_.engine, &result), "a step");
      numbers.insert(numbers.end(), {result.loss, result.grad_norm});
    }
    return numbers;
  }

  const std::string away_;  ///< /offload/folder
  Host host_;
  Extent extent_ = Extent::kOne;
  long idle_threads_ = 0;  ///< threads while no save runs

 private:
  /// Returns the operations that fail: the first two, which create the file, the last, and some between.
  /// Before the last comes one from which on every thread that copies has an operation left.
  static std::vector<long> chosen(long total) {
    const long stride = std::getenv("HAWSER_FULL") ? 1 : std::max<long>(1, total / kRunsInCi);
    std::vector<long> some = {1, 2, total - 7, total};
    for (long n = 1 + static_cast<long>(seed() % static_cast<uint64_t>(stride)); n <= total; n += stride)
      some.push_back(n);
    std::sort(some.begin(), some.end());
    some.erase(std::unique(some.begin(), some.end()), some.end());
    std::erase_if(some, [&](long n) { return n < 1 || n > total; });
    return some;
  }

  int32_t attempt(const Stage& stage) {
    const int32_t status = stage.prepare();
    return status == HWS_OK ? stage.call() : status;
  }

  /// Counts the operations of an undisturbed call; the first call creates what is created once.
  long count(const Stage& stage, int error) {
    long total = 0;
    for (int i = 0; i < 2; ++i) {
      require(stage.prepare(), stage.name);
      const FailAt none(Operation::kUnnamedFile, error, -1);
      require(stage.call(), stage.name);
      total = none.seen();
      stage.undo();
    }
    return total;
  }

  /// The memory that the library keeps for its last failure may differ in size from what it kept before; a
  /// leak would grow again in a repetition.
  void fail_once(const Stage& stage, int error, long n, Counts* counts) {
    Held before = settled();
    bool revived = fail_and_recover(stage, error, n, counts);
    Held after = settled();
    if (!revived && after.blocks > before.blocks) {
      Counts again;
      before = after;
      revived = fail_and_recover(stage, error, n, &again);
      after = settled();
    }
    EXPECT_EQ(after.files, before.files) << "open files";
    EXPECT_EQ(after.threads, before.threads) << "threads";
    EXPECT_TRUE(fs::is_empty(away_)) << "files in /offload/folder";
    if (revived) return;  // a new engine holds other memory than a used one
    EXPECT_EQ(after.pages, before.pages) << "mapped pages";
    EXPECT_LE(after.blocks, before.blocks) << "blocks of the heap";
  }

  /// Returns true if the ranks had to be created again.
  bool fail_and_recover(const Stage& stage, int error, long n, Counts* counts) {
    require(stage.prepare(), stage.name);
    int32_t status = HWS_OK;
    bool happened = false;
    {
      const FailAt fail(Operation::kUnnamedFile, error, n, extent_);
      status = stage.call();
      happened = fail.happened();
    }
    EXPECT_TRUE(happened);
    if (status == HWS_OK) {
      stage.undo();
      return false;
    }
    ++counts->told;
    expect_clear_error(status, error);
    stage.after_failure();
    const bool revived = recover(stage, counts);
    stage.undo();
    return revived;
  }

  /// Repeats the call, after a load or with a new engine if the error asks for it.
  bool recover(const Stage& stage, Counts* counts) {
    int32_t again = attempt(stage);
    bool revived = false;
    if (again == HWS_FAILED_PRECONDITION) {
      EXPECT_PRED2(contains, message(again), kMixed);
      ++counts->mixed;
      load();
      again = attempt(stage);
    } else if (again == HWS_ABORTED && GetParam() > 1) {  // one rank failed alone
      EXPECT_PRED2(contains, message(again), "create a new engine");
      hws_engine_destroy(std::exchange(host_.engine, nullptr));
      start();
      revived = true;
      again = attempt(stage);
    }
    require(again, "the same call again");
    return revived;
  }

  void expect_clear_error(int32_t status, int error) {
    const std::string text = message(status);
    EXPECT_EQ(status, error == EROFS && contains(text, "cannot create") ? HWS_PERMISSION : HWS_IO) << text;
    EXPECT_PRED2(contains, text, away_);
    EXPECT_TRUE(contains(text, " at byte ") || contains(text, "cannot create a file of ")) << text;
    EXPECT_TRUE(error != EINTR && error != kShort) << text;
  }

  /// Returns what the process holds after the threads of a completed call have ended.
  Held settled() const {
    Held now = testing::held();
    for (int i = 0; i < 2000 && now.threads != idle_threads_; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      now = testing::held();
    }
    return now;
  }
};

/// Walks every call that uses the file.
class Life : public OffloadFault {
 protected:
  void walk_all(int error) {
    walk_creation(error);
    if (HasFailure()) return;
    start();
    expected_ = follow(3);
    load();
    walk_steps(error);
    if (HasFailure()) return;
    walk_tensors(error);
    if (HasFailure()) return;
    walk_checkpoints(error);
  }

  /// Each engine that is created takes the same steps.
  Counts walk_creation(int error) {
    idle_threads_ = testing::held().threads;
    std::vector<double> first;
    return walk({"create", [&] { return host_.create(); },
                 [&] {
                   const std::vector<double> steps = follow(2);
                   if (first.empty()) first = steps;
                   EXPECT_EQ(steps, first);
                   hws_engine_destroy(std::exchange(host_.engine, nullptr));
                 }},
                error);
  }

  bool is_failure(int error) const { return error != EINTR && error != kShort; }

  /// Expects that every failure was reported, and with one rank, whether the state was a mix of two.
  void expect_counts(const Counts& counts, int error, bool changes) {
    EXPECT_EQ(counts.told, is_failure(error) ? counts.runs : 0);
    if (GetParam() == 1) {
      EXPECT_EQ(counts.mixed, changes ? counts.told : 0);
    }
  }

 private:
  void expect_steps(size_t first_step) {
    EXPECT_EQ(follow(static_cast<int>(3 - first_step)),
              std::vector<double>(expected_.begin() + static_cast<long>(2 * first_step), expected_.end()));
    load();
  }

  void walk_steps(int error) {
    hws_step_result result{};
    result.struct_size = sizeof result;
    const auto forward_backward = [&] { return hws_engine_forward_backward(host_.engine, &result); };
    const auto expect_loss = [&] {
      EXPECT_EQ(result.loss, expected_[0]);
      EXPECT_EQ(result.grad_norm, expected_[1]);
    };
    expect_counts(walk({"forward_backward", forward_backward,
                        [&] {
                          expect_loss();
                          require(hws_engine_discard(host_.engine, 1, nullptr), "discard");
                          if (++discards_ % 4 == 0) expect_steps(0);
                        }},
                       error),
                  error, false);
    expect_counts(walk({"commit", [&] { return hws_engine_commit(host_.engine, nullptr); },
                        [&] { expect_steps(1); }, forward_backward, [&] { expect_refused(); }},
                       error),
                  error, true);
    const Counts counts = walk({"train_step", [&] { return hws_engine_train_step(host_.engine, &result); },
                                [&] {
                                  expect_loss();
                                  expect_steps(1);
                                }},
                               error);
    EXPECT_EQ(counts.told, is_failure(error) ? counts.runs : 0);
    if (GetParam() == 1 && is_failure(error)) {
      EXPECT_GT(counts.mixed, 0);
      EXPECT_LT(counts.mixed, counts.told);
    }
    double loss = 0, first_loss = -1;
    expect_counts(walk({"eval", [&] { return hws_engine_eval(host_.engine, nullptr, 1, &loss, nullptr); },
                        [&] { EXPECT_EQ(loss, first_loss < 0 ? first_loss = loss : first_loss); }},
                       error),
                  error, false);
  }

  /// Expects that every call reports the failure of the update.
  void expect_refused() {
    std::vector<float> data(kElements);
    const size_t bytes = data.size() * sizeof(float);
    const std::string other = host_.path("refused");
    double loss = 0;
    hws_op* op = nullptr;
    const std::function<int32_t()> calls[] = {
        [&] { return hws_engine_train_step(host_.engine, nullptr); },
        [&] { return hws_engine_forward_backward(host_.engine, nullptr); },
        [&] { return hws_engine_commit(host_.engine, nullptr); },
        [&] { return hws_engine_eval(host_.engine, nullptr, 1, &loss, nullptr); },
        [&] { return hws_tensor_get(host_.engine, HWS_TENSOR_WEIGHT, kTensor, data.data(), bytes); },
        [&] { return hws_tensor_set(host_.engine, HWS_TENSOR_MOMENT1, kTensor, data.data(), bytes); },
        [&] { return hws_checkpoint_save(host_.engine, other.c_str()); },
        [&] { return hws_checkpoint_save_async(host_.engine, other.c_str(), &op); },
        [&] { return hws_engine_export(host_.engine, other.c_str(), ""); },
    };
    for (const auto& call : calls) {
      const int32_t status = call();
      EXPECT_EQ(status, GetParam() == 1 ? HWS_FAILED_PRECONDITION : HWS_ABORTED) << &call - calls;
      if (GetParam() == 1) {
        EXPECT_PRED2(contains, message(status), std::string("the update of the last step ") + kMixed);
      }
    }
    for (const auto& left : fs::directory_iterator(host_.folder))
      EXPECT_FALSE(contains(left.path(), "refused")) << left.path();
  }

  void walk_tensors(int error) {
    const size_t bytes = kElements * sizeof(float);
    for (const int32_t kind : {HWS_TENSOR_WEIGHT, HWS_TENSOR_MOMENT2}) {
      std::vector<float> before(kElements), data(kElements);
      const auto get = [&] { return hws_tensor_get(host_.engine, kind, kTensor, data.data(), bytes); };
      require(hws_tensor_get(host_.engine, kind, kTensor, before.data(), bytes), "get");
      EXPECT_NE(before, data);
      expect_counts(walk({"get", get,
                          [&] {
                            EXPECT_EQ(data, before);
                            std::fill(data.begin(), data.end(), -1.0f);
                          }},
                         error),
                    error, false);
      std::vector<float> other(before.rbegin(), before.rend());
      expect_counts(
          walk({"set", [&] { return hws_tensor_set(host_.engine, kind, kTensor, other.data(), bytes); },
                [&] {
                  require(get(), "get");
                  EXPECT_EQ(data, other);
                  require(hws_tensor_set(host_.engine, kind, kTensor, before.data(), bytes), "set back");
                }},
               error),
          error, false);
    }
    expect_steps(0);
  }

  void walk_checkpoints(int error) {
    const std::string other = host_.path("other");
    const auto same_files = [&] {
      require(hws_checkpoint_verify(other.c_str()), "verify");
      for (const auto& file : fs::directory_iterator(saved()))
        if (file.path().extension() == ".safetensors") {
          EXPECT_EQ(bytes_of(file.path()), bytes_of(fs::path(other) / file.path().filename()));
        }
      fs::remove_all(other);
      for (const auto& left : fs::directory_iterator(host_.folder))
        EXPECT_NE(left.path().extension(), ".tmp") << left.path();
    };
    const auto save_async = [&] {
      hws_op* op = nullptr;
      int32_t status = hws_checkpoint_save_async(host_.engine, other.c_str(), &op);
      if (status == HWS_OK) status = hws_op_wait(op, -1);
      hws_op_destroy(op);
      return status;
    };
    expect_counts(
        walk({"save", [&] { return hws_checkpoint_save(host_.engine, other.c_str()); }, same_files}, error),
        error, false);
    expect_counts(walk({"save_async", save_async, same_files}, error), error, false);
    const Counts loads = walk({"load", [&] { return hws_checkpoint_load(host_.engine, saved().c_str(), 0); },
                               [&] { expect_steps(0); }, [] { return HWS_OK; },
                               [&] {
                                 if (GetParam() > 1) return;
                                 const int32_t status = hws_engine_train_step(host_.engine, nullptr);
                                 EXPECT_EQ(status, HWS_FAILED_PRECONDITION);
                                 EXPECT_PRED2(contains, message(status), kMixed);
                               }},
                              error);
    expect_counts(loads, error, false);  // the same load again works at once
  }

  std::vector<double> expected_;  ///< loss and norm of three steps after the checkpoint
  long discards_ = 0;
};

TEST_P(Life, DiskFails) { walk_all(EIO); }
/// Errors that are left when a call has failed are not those of the next call.
TEST_P(Life, DiskIsGone) {
  extent_ = Extent::kAllFrom;
  walk_all(EIO);
}
TEST_P(Life, DiskFull) { walk_all(ENOSPC); }
TEST_P(Life, Interrupted) { walk_all(EINTR); }
TEST_P(Life, ShortTransfers) { walk_all(kShort); }

/// The same without direct access to the disk, where a transfer may end at any byte.
TEST_P(Life, ShortTransfersThroughThePageCache) {
  const testing::NoDirectAccess buffered;
  walk_all(kShort);
}

TEST_P(Life, FolderIsReadOnly) { expect_counts(walk_creation(EROFS), EROFS, false); }

/// On a file system without unnamed files, or without reservation, there are other ways to create the file.
/// If these fail too, the error is clear.
TEST_P(Life, UnnamedFilesOrReservationNotSupported) {
  const Counts once = walk_creation(EOPNOTSUPP);
  EXPECT_LT(once.told, once.runs);
  if (HasFailure()) return;
  extent_ = Extent::kAllFrom;
  const Counts from_there = walk_creation(EOPNOTSUPP);
  EXPECT_EQ(from_there.told, from_there.runs);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Life, ::testing::Values(1, 2));

}  // namespace offload_fault_test
}  // namespace hawser
