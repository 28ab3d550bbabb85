// See offload_fault_walk.h.
#include "tests/reliability/offload_fault_walk.h"

#include <errno.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <utility>

namespace hawser::testing {
namespace {

namespace fs = std::filesystem;

constexpr long kRunsInCi = 8;  // runs for each call and kind of failure

std::string make_folder() {
  std::string name = (fs::temp_directory_path() / "hawser-offload-fault-XXXXXX").string();
  return mkdtemp(name.data());
}

std::string section(const std::string& folder) {
  return R"("precision": "bf16", "offload": {"optimizer": "disk", "parameters": "disk", "activations": "disk",
            "folder": ")" +
         folder + R"("}, )";
}

/// Returns the operations that fail: the first two, which create the file, the last, and some between.
/// Before the last comes one from which on every thread that copies has an operation left.
std::vector<long> chosen(long total) {
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

}  // namespace

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string message_of(int32_t status) {
  hws_error* error = nullptr;
  EXPECT_EQ(hws_error_take(&error), HWS_OK);
  EXPECT_EQ(hws_error_code(error), status);
  std::string text = hws_error_message(error);
  hws_error_destroy(error);
  return text;
}

OffloadFault::OffloadFault() : away_(make_folder()), host_(GetParam(), 5, section(away_)) {}

OffloadFault::~OffloadFault() {
  hws_engine_destroy(std::exchange(host_.engine, nullptr));
  fs::remove_all(away_);
}

Counts OffloadFault::walk(const Stage& stage, int error) {
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

void OffloadFault::start() {
  host_.live();
  if (!fs::exists(saved())) require(hws_checkpoint_save(host_.engine, saved().c_str()), "save");
  load();
  idle_threads_ = testing::idle_threads();
}

void OffloadFault::load() { require(hws_checkpoint_load(host_.engine, saved().c_str(), 0), "load"); }

std::vector<double> OffloadFault::follow(int steps) {
  std::vector<double> numbers;
  for (int i = 0; i < steps; ++i) {
    hws_step_result result{};
    result.struct_size = sizeof result;
    require(hws_engine_train_step(host_.engine, &result), "a step");
    numbers.insert(numbers.end(), {result.loss, result.grad_norm});
  }
  return numbers;
}

/// Counts the operations of an undisturbed call; the first call creates what is created once.
long OffloadFault::count(const Stage& stage, int error) {
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
void OffloadFault::fail_once(const Stage& stage, int error, long n, Counts* counts) {
  Held before = testing::held_when_idle(idle_threads_);
  bool revived = fail_and_recover(stage, error, n, counts);
  Held after = testing::held_when_idle(idle_threads_);
  if (!revived && after.blocks > before.blocks) {
    Counts again;
    before = after;
    revived = fail_and_recover(stage, error, n, &again);
    after = testing::held_when_idle(idle_threads_);
  }
  EXPECT_EQ(after.files, before.files) << "open files";
  EXPECT_EQ(after.threads, before.threads) << "threads";
  EXPECT_TRUE(fs::is_empty(away_)) << "files in /offload/folder";
  if (revived) return;  // a new engine holds other memory than a used one
  EXPECT_EQ(after.pages, before.pages) << "mapped pages";
  EXPECT_LE(after.blocks, before.blocks) << "blocks of the heap";
}

/// Returns true if the ranks had to be created again.
bool OffloadFault::fail_and_recover(const Stage& stage, int error, long n, Counts* counts) {
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
bool OffloadFault::recover(const Stage& stage, Counts* counts) {
  int32_t again = attempt(stage);
  bool revived = false;
  if (again == HWS_FAILED_PRECONDITION) {
    EXPECT_PRED2(contains, message_of(again), kMixed);
    ++counts->mixed;
    load();
    again = attempt(stage);
  } else if (again == HWS_ABORTED && GetParam() > 1) {  // one rank failed alone
    EXPECT_PRED2(contains, message_of(again), "create a new engine");
    hws_engine_destroy(std::exchange(host_.engine, nullptr));
    start();
    revived = true;
    again = attempt(stage);
  }
  require(again, "the same call again");
  return revived;
}

void OffloadFault::expect_clear_error(int32_t status, int error) {
  const std::string text = message_of(status);
  EXPECT_EQ(status, error == EROFS && contains(text, "cannot create") ? HWS_PERMISSION : HWS_IO) << text;
  EXPECT_PRED2(contains, text, away_);
  EXPECT_TRUE(contains(text, " at byte ") || contains(text, "cannot create a file of ")) << text;
  EXPECT_TRUE(error != EINTR && error != kShort) << text;
}

}  // namespace hawser::testing
