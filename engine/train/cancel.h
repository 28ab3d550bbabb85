// Cancel: the host's wish that what runs should end. Any thread may set the flag, at any time; whoever ends
// for it takes it, once. Processes end together: a wish inside train travels in the next step's reduction.
#pragma once

#include <atomic>

#include "engine/train/ranks/ranks.h"

namespace hawser::train {

class Cancel {
 public:
  /// Both outlive it.
  Cancel(std::atomic<bool>* flag, const Ranks& ranks) : flag_(flag), ranks_(ranks) {}

  /// Of this process; for a step to take along.
  bool wished() const { return flag_->load(); }
  /// A step has brought it from some process to all.
  void came_with_step(bool wished) { agreed_ = agreed_ || wished; }
  /// Before a step: whether to end, as all processes know it. Takes it.
  bool take();
  /// Inside a call that may run on its own or within train: there the flag stays, so that the run ends at
  /// its step boundary.
  bool ends_call() { return in_train_ ? flag_->load() : flag_->exchange(false); }

  /// Marks a run of train while it lives.
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
  bool agreed_ = false;  // some process wished to stop, and all know
};

inline bool Cancel::take() {
  if (ranks_.all_here()) return flag_->exchange(false);
  if (!agreed_) return false;
  agreed_ = false;
  flag_->store(false);
  return true;
}

}  // namespace hawser::train
