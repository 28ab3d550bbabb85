// Cancel: a request of the host that the running call stop. Any thread may set the flag at any time. The call
// that stops because of it clears it. Processes stop together: a request made during train travels with the
// next step's reduction.
#pragma once

#include <atomic>

#include "engine/train/ranks/ranks.h"

namespace hawser::train {

class Cancel {
 public:
  /// Both arguments must outlive this object.
  Cancel(std::atomic<bool>* flag, const Ranks& ranks) : flag_(flag), ranks_(ranks) {}

  /// Whether this process was asked to stop. The step shares the answer with the other processes.
  bool wished() const { return flag_->load(); }
  /// Records what a step learned: whether any process was asked to stop.
  void came_with_step(bool wished) { agreed_ = agreed_ || wished; }
  /// Called before a step. Returns whether to stop, the same on all processes, and clears the request.
  bool take();
  /// Whether a call that can run alone or within train must stop. Within train the flag stays set, so that
  /// the run itself stops at its next step boundary.
  bool ends_call() { return in_train_ ? flag_->load() : flag_->exchange(false); }

  /// Marks a run of train for as long as it exists.
  class InTrain {
   public:
    explicit InTrain(Cancel* cancel) : cancel_(*cancel) { cancel_.in_train_ = true; }
    ~InTrain() { cancel_.in_train_ = false; }
    InTrain(const InTrain&) = delete;
    InTrain& operator=(const InTrain&) = delete;

   private:
    Cancel& cancel_;
  };
  bool in_train() const { return in_train_; }

 private:
  std::atomic<bool>* const flag_;
  const Ranks& ranks_;
  bool in_train_ = false;
  bool agreed_ = false;  // some process was asked to stop, and all processes know
};

inline bool Cancel::take() {
  if (ranks_.all_here()) return flag_->exchange(false);
  if (!agreed_) return false;
  agreed_ = false;
  flag_->store(false);
  return true;
}

}  // namespace hawser::train
