// Offload test: activations that are stored elsewhere between forward and backward change no bit, and leave
// the arena as the plan specifies.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "engine/parallel/disk_store.h"
#include "engine/parallel/offload.h"
#include "engine/parallel/offload_activations.h"
#include "engine/plan/simulator.h"
#include "tests/harness/layout_run.h"
#include "tests/harness/reference_run.h"
#include "tests/plan/plan_text.h"

namespace hawser::testing {
namespace offload_test {

constexpr int kSteps = 3;

std::string to_disk(int64_t prefetch) {
  return fmt::format(R"({{"activations": "disk", "folder": "{}", "prefetch": {}}})", ::testing::TempDir(),
                     prefetch);
}

void expect_bits(const Problem& problem, const Layout& layout, int64_t prefetch) {
  Layout away = layout;
  away.offload = to_disk(prefetch);
  EXPECT_EQ(first_difference(reference_run(problem, layout, kSteps), run_layout(problem, away, kSteps)), "")
      << away.name();
}

TEST(Offload, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "bf16_pure"})
    for (const int64_t prefetch : {1, 2, 5}) {
      Problem problem;
      problem.precision = precision, problem.layers = 7, problem.documents = prefetch == 2;
      problem.like_gpt2 = prefetch != 2;
      Layout layout;
      layout.accumulation = 2;
      expect_bits(problem, layout, prefetch);
    }
}

TEST(Offload, ChangesNoBitUnderAnyLayout) {
  std::vector<Layout> layouts(9);
  layouts[0].dp_shard = 3, layouts[0].stage = 3;
  layouts[1].dp_shard = 2, layouts[1].stage = 2, layouts[1].reduce = "per_micro_batch";
  layouts[2].tp = 2, layouts[2].recompute = R"({"policy": "full"})";
  layouts[3].cp = 2, layouts[3].recompute = R"({"policy": "selective", "arrays": ["qkv", "mlp_hidden"]})";
  layouts[4].pp = 2, layouts[4].recompute = R"({"policy": "every", "every": 2})";
  layouts[5].pp = 2, layouts[5].schedule = "gpipe", layouts[5].dp_shard = 2, layouts[5].stage = 3;
  layouts[6].pp = 2, layouts[6].schedule = "zb_h1";
  layouts[7].pp = 2, layouts[7].schedule = "zbv", layouts[7].recompute = R"({"policy": "full"})";
  layouts[8].pp = 2, layouts[8].schedule = "interleaved", layouts[8].chunks = 2, layouts[8].tp = 2;
  for (Layout& layout : layouts) {
    layout.accumulation = 4;
    Problem problem;
    problem.layers = 8;
    expect_bits(problem, layout, 1);
  }
}

const train::EnginePlans& plans_of(LayoutRun& run) { return run.trainer().ranks().first().plans(); }

/// The arena holds a window of blocks of constant size; the file holds the other blocks, to the byte.
TEST(Offload, LeavesAWindowInTheArena) {
  const auto run = [](int64_t layers, int64_t prefetch) {
    Problem problem;
    problem.layers = layers;
    Layout layout;
    if (prefetch > 0) layout.offload = to_disk(prefetch);
    LayoutRun run(problem, layout);
    run.step();
    const plan::Plan& train = plans_of(run).train;
    EXPECT_EQ(run.trainer().ranks().first().executor().slots().high_water(), train.peak_bytes);
    EXPECT_EQ(plans_of(run).outside, train.outside);
    return std::pair(train.at_peak[static_cast<size_t>(plan::Category::kActivations)],
                     train.outside[static_cast<size_t>(plan::Space::kDisk)]);
  };
  const auto [small, small_file] = run(12, 1);
  const auto [large, large_file] = run(16, 1);
  const auto [wide, wide_file] = run(16, 3);
  EXPECT_EQ(small, large);
  EXPECT_LT(large, wide);
  EXPECT_LT(wide, run(16, 0).first);
  EXPECT_GT(large_file, small_file);
  EXPECT_EQ((large_file - small_file) % 4, 0);  // bytes for each additional block
  EXPECT_GT(large_file, wide_file);
}

plan::Plan offloaded(int64_t layers, int64_t prefetch) {
  plan::Sizes sizes = small_sizes(layers, false);
  plan::Plan plan =
      plan::train_plan(sizes, plan::whole_model(sizes.head() + 1, 1), 1, plan::Accumulation::kInPlace);
  parallel::offload_activations(&plan, plan::Space::kDisk, prefetch);
  plan::finish(&plan);
  return plan;
}

/// An instruction that overwrites bytes waits until they have been copied out; one that reads bytes waits
/// until they have been copied in.
TEST(Offload, WaitsFollowFromBytes) {
  for (const int64_t prefetch : {1, 2, 3}) {
    const plan::Plan plan = offloaded(9, prefetch);
    std::vector<int32_t> fetched(plan.slots.size(), -1), left(plan.slots.size(), -1);
    plan::LaneMarks done;
    int64_t moves = 0;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const plan::Instruction& n = plan.instructions[i];
      done.raise_to(n.waits_for);
      for (const plan::Use& use : n.uses)
        if (const int32_t from = fetched[static_cast<size_t>(use.slot)]; from >= 0 && !use.written) {
          EXPECT_GE(done[plan::Lane::kFetch], from) << "instruction " << i;
        }
      if (n.op == plan::Op::kFetch)
        fetched[static_cast<size_t>(n[plan::Operand::kReceived])] = static_cast<int32_t>(i);
      if (n.op == plan::Op::kOffload)
        left[static_cast<size_t>(n[plan::Operand::kReceived])] = static_cast<int32_t>(i);
      if (n.op == plan::Op::kFetch) {
        const int32_t written = left[static_cast<size_t>(n[plan::Operand::kSent])];
        EXPECT_GE(written, 0) << "instruction " << i;
        EXPECT_GE(done[plan::Lane::kOffload], written) << "instruction " << i;
      }
      moves += plan::is_move(n.op);
    }
    EXPECT_GT(moves, 0);
    EXPECT_EQ(parallel::offloaded_bytes(plan, plan::Space::kDisk) % (700 + 256),
              0);  // a block's saved activations and input
  }
}

/// If the disk is as fast as the blocks, nothing waits for it.
TEST(Offload, HidesBehindTheBlocks) {
  const plan::Plan plan = offloaded(12, 1);
  plan::CostTable costs;
  costs.seconds_per_flop = 1e-9;                 // forward of a block: 2 s
  costs.offload_bytes_per_second = (700 + 256);  // one second for each block and direction
  const plan::Timeline line = plan::simulate(plan, costs);
  EXPECT_LT(plan::overlap_of(plan, line).exposed, 1e-9);
  costs.offload_bytes_per_second /= 10;
  EXPECT_GT(plan::overlap_of(plan, plan::simulate(plan, costs)).exposed, 1);
}

TEST(Offload, ForgetsNothingOnDisk) {
  constexpr int64_t kBytes = (5 << 20) + 4096 + 100;  // several pieces, and an incomplete page at the end
  using Way = parallel::OffloadStore::Way;
  parallel::DiskStore store(
      std::make_shared<parallel::OffloadFile>(::testing::TempDir(), 3 * ((kBytes + 4095) / 4096 * 4096)), 3);
  std::vector<char> memory(kBytes + 4096);
  char* const one =
      reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory.data()) + 4095) / 4096 * 4096);
  const int64_t room = (kBytes + 4095) / 4096 * 4096;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t b = 0; b < kBytes; ++b) one[b] = static_cast<char>(b * 7 + i);
    store.wait(Way::kOut, store.start(Way::kOut, one, i * room, kBytes));
  }
  for (int64_t i = 2; i >= 0; --i) {
    std::fill_n(one, kBytes, '\0');
    const uint64_t ticket = store.start(Way::kIn, one, i * room, kBytes);
    store.wait(Way::kIn, ticket);
    int64_t wrong = 0;
    for (int64_t b = 0; b < kBytes; ++b) wrong += one[b] != static_cast<char>(b * 7 + i);
    EXPECT_EQ(wrong, 0) << i;
    EXPECT_GT(store.span(Way::kIn, ticket).end, store.span(Way::kIn, ticket).begin);
  }
}

/// The largest file that this process may write, while an object lives.
class LargestFile {
 public:
  explicit LargestFile(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~LargestFile() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

/// Creates a file of `bytes` in `folder` and returns the error.
std::string why_not(const std::string& folder, int64_t bytes, Code code) {
  try {
    parallel::OffloadFile file(folder, bytes);
    ADD_FAILURE() << folder;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.message();
  }
  return "";
}

TEST(Offload, SaysWhichFolderItCannotUse) {
  const auto begins = [](const std::string& text, const std::string& folder, int64_t bytes) {
    const std::string begin =
        fmt::format("/offload/folder \"{}\": cannot create a file of {} bytes there", folder, bytes);
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    return text.substr(std::min(begin.size(), text.size()));
  };
  EXPECT_EQ(begins(why_not("/no/such/folder", 4096, Code::kIo), "/no/such/folder", 4096),
            ": No such file or directory; create the folder, or name another");
  const std::string file = ::testing::TempDir() + "no-folder";
  std::ofstream(file) << "text";
  EXPECT_NE(why_not(file, 4096, Code::kIo).find("Not a directory; create the folder"), std::string::npos);
  std::filesystem::remove(file);

  const std::string folder = ::testing::TempDir();
  constexpr int64_t kTooMuch = int64_t{1} << 43;  // 8 TiB, less than the largest file of ext4
  struct statvfs disk {};
  ASSERT_EQ(statvfs(folder.c_str(), &disk), 0);
  if (disk.f_bavail * disk.f_frsize < static_cast<uint64_t>(kTooMuch)) {
    const std::string rest = begins(why_not(folder, kTooMuch, Code::kIo), folder, kTooMuch);
    int64_t available = -1;
    EXPECT_EQ(std::sscanf(rest.c_str(), " (%ld bytes are free): ", &available), 1) << rest;
    EXPECT_GT(available, 0);
    EXPECT_LT(available, kTooMuch);
    EXPECT_NE(rest.find("No space left on device; name a folder on a disk with more space, or offload less"),
              std::string::npos)
        << rest;
  }
  {
    const LargestFile limit(1 << 20);  // a larger file sends SIGXFSZ, which would end this process
    const std::string text = why_not(folder, 8 << 20, Code::kIo);
    EXPECT_NE(text.find("File too large; raise the limit on the size of files (ulimit -f)"),
              std::string::npos)
        << text;
  }
  EXPECT_TRUE(parallel::OffloadFile(folder, 8 << 20).folder() == folder);
}

/// The thread becomes another user for the file system, because permissions do not bind root.
TEST(Offload, SaysThatAFolderIsReadOnly) {
  std::string folder = ::testing::TempDir() + "read-only-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(chmod(folder.c_str(), 0555), 0);
  constexpr uid_t kNobody = 65534;
  const int before = setfsuid(kNobody);
  const std::string text = why_not(folder, 12345, Code::kPermission);
  setfsuid(static_cast<uid_t>(before));
  EXPECT_NE(text.find(folder), std::string::npos);
  EXPECT_NE(text.find("12345 bytes"), std::string::npos);
  EXPECT_NE(text.find("Permission denied; name a folder that this user can write to"), std::string::npos)
      << text;
  std::filesystem::remove(folder);
}

/// A disk that refuses writes fails the step, not the process, and the step can be repeated.
TEST(Offload, RepeatsAStepAfterTheDiskFailed) {
  Problem problem;
  problem.layers = 7;
  Layout away;
  away.offload = to_disk(1);
  LayoutRun run(problem, away);
  std::vector<StepRecord> records = {run.step()};
  {
    const LargestFile none(0);
    run.skip_to(1);
    EXPECT_THROW(run.step(), Error);
  }
  run.skip_to(1);
  records.push_back(run.step());
  EXPECT_EQ(first_difference(run_layout(problem, Layout(), 2), records), "");
}

}  // namespace offload_test
}  // namespace hawser::testing
