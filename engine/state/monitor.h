// Monitor: the progress of an engine, for threads that watch it: the call that runs, the steps taken, the
// last loss.
//
// Any thread may call read at any time; it waits at most for a copy of a few numbers. Only the engine's one
// mutating call writes.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>

#include "engine/execute/step_result.h"
#include "engine/state/run_state.h"

namespace hawser::train {

enum class Phase : int32_t { kIdle = 0, kTrain = 1, kEval = 2, kGenerate = 3, kSave = 4, kLoad = 5 };

class Monitor {
 public:
  struct View {
    static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    Phase phase = Phase::kIdle;
    int64_t done = 0, total = 0;  ///< progress of the phase; total 0: it is not counted
    int64_t until_step = 0;       ///< last step of the running train; 0: none runs
    int64_t step = 0, samples = 0, skipped = 0;
    int64_t step_rows = 0;  ///< of the last step
    double loss = kNone, grad_norm = kNone, learning_rate = kNone,
           step_seconds = kNone;  ///< of the last step
    double validation_loss = kNone;
    double running_seconds = 0;  ///< since the running call began
  };

  View read() const {
    const std::lock_guard lock(mutex_);
    View view = view_;
    if (view.phase != Phase::kIdle) view.running_seconds = seconds_since(began_);
    return view;
  }

  /// Records the result of a step that has ended.
  void record(const StepResult& result) {
    const std::lock_guard lock(mutex_);
    view_.step = result.step, view_.samples = result.samples, view_.skipped = result.skipped;
    view_.step_rows = result.rows;
    view_.loss = result.loss, view_.grad_norm = result.grad_norm;
    view_.learning_rate = result.learning_rate, view_.step_seconds = result.seconds;
  }
  /// Records that the engine continues from another state, and clears the results of earlier steps.
  void moved_to(const RunState& state) {
    const std::lock_guard lock(mutex_);
    view_.step = state.step, view_.samples = state.samples, view_.skipped = state.skipped;
    view_.loss = view_.grad_norm = view_.learning_rate = view_.step_seconds = View::kNone;
    view_.validation_loss = View::kNone;
  }
  void validated(double loss) {
    const std::lock_guard lock(mutex_);
    view_.validation_loss = loss;
  }
  void until(int64_t step) {
    const std::lock_guard lock(mutex_);
    view_.until_step = step;
  }
  /// Records how far the phase is.
  void count(int64_t done, int64_t total) {
    const std::lock_guard lock(mutex_);
    view_.done = done, view_.total = total;
  }

  /// Marks a phase for as long as the object exists; afterwards the enclosing phase continues.
  class InPhase {
   public:
    InPhase(Monitor* monitor, Phase phase) : monitor_(*monitor), before_(monitor->enter(phase)) {}
    ~InPhase() { monitor_.leave_to(before_); }
    InPhase(const InPhase&) = delete;
    InPhase& operator=(const InPhase&) = delete;

   private:
    Monitor& monitor_;
    const View before_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  View enter(Phase phase) {
    const std::lock_guard lock(mutex_);
    const View before = view_;
    if (before.phase == Phase::kIdle) began_ = Clock::now();
    view_.phase = phase, view_.done = view_.total = 0;
    return before;
  }
  void leave_to(const View& before) {
    const std::lock_guard lock(mutex_);
    view_.phase = before.phase, view_.done = before.done, view_.total = before.total;
    view_.until_step = before.until_step;
  }

  mutable std::mutex mutex_;
  View view_;
  Clock::time_point began_{};
};

}  // namespace hawser::train
