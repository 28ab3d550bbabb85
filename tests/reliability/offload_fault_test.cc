// Disk faults of /offload: weights, moments and activations are in a file, and the N-th operation on this
// file fails, for every N until a call has no more of them (offload_fault_walk.h). Each time the error names
// the folder, and nothing is left behind. A failure in forward_backward only discards the step; after a
// failure in commit, the engine refuses every call until a checkpoint is loaded. Interrupted and short
// transfers are no failures.
#include <errno.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/reliability/offload_fault_walk.h"

namespace hawser {
namespace offload_fault_test {

namespace fs = std::filesystem;
using testing::contains;
using testing::Counts;
using testing::Extent;
using testing::kMixed;
using testing::kShort;
using testing::message_of;
using testing::OffloadFault;
using testing::require;

constexpr const char* kTensor = "wte.weight";
constexpr size_t kElements = 256 * 16;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

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
    idle_threads_ = testing::idle_threads();
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
        EXPECT_PRED2(contains, message_of(status), std::string("the update of the last step ") + kMixed);
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
                                 EXPECT_PRED2(contains, message_of(status), kMixed);
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
