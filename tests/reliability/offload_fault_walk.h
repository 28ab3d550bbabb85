// OffloadFault: an engine whose weights, moments and activations are in a file, and a walk over the file's
// operations: the N-th of them fails in a call, for every N. After each failure the walk checks the error and
// that nothing is left behind, and makes the call succeed, after a load or with a new engine if the error
// says so.
//
// CI uses a stride from a random N, whose seed is printed (HAWSER_SEED repeats it); HAWSER_FULL=1 tests every
// N.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/reliability/failing_calls.h"
#include "tests/reliability/host.h"

namespace hawser::testing {

/// In the error of an engine whose state is a mix of two.
inline constexpr const char* kMixed = "failed after it had changed some weights; load a checkpoint";

/// Takes the last error of this thread, which must have this status, and returns its message.
std::string message_of(int32_t status);
bool contains(const std::string& text, const std::string& part);

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
  OffloadFault();
  ~OffloadFault() override;

  /// Makes the operations of the call fail with `error`, one after the other.
  Counts walk(const Stage& stage, int error);
  /// Starts an engine in the state of the checkpoint saved().
  void start();
  void load();
  std::string saved() const { return host_.path("saved"); }
  /// Returns loss and gradient norm of the next steps.
  std::vector<double> follow(int steps);

  const std::string away_;  ///< /offload/folder
  Host host_;
  Extent extent_ = Extent::kOne;
  long idle_threads_ = 0;  ///< threads while no save runs

 private:
  long count(const Stage& stage, int error);
  void fail_once(const Stage& stage, int error, long n, Counts* counts);
  bool fail_and_recover(const Stage& stage, int error, long n, Counts* counts);
  bool recover(const Stage& stage, Counts* counts);
  void expect_clear_error(int32_t status, int error);
};

}  // namespace hawser::testing
