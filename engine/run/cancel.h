// Cancel: a request of the host that the running call stop. Any thread may set the flag at any time; the poll
// of the thread that made the call is asked, too. The call that stops because of it clears it, and a request
// is never kept for a later call. Processes stop together: a request made during train travels with the next
// step's reduction.
#pragma once

#include <atomic>

#include "engine/base/interrupt.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

class Cancel {
 public:
  /// Both arguments must outlive this object.
  Cancel(std::atomic<bool>* flag, const Ranks& ranks) : flag_(flag), ranks_(ranks) {}

  /// A call begins that can be asked to stop. Drops what was asked before it, unless it is part of train.
  void begin() {
    if (in_train_) return;
    flag_->store(false);
    agreed_ = false;
  }
  /// Whether this process was asked to stop its run of train. The step shares the answer with the others.
  bool wished() { return in_train_ && asked(); }
  /// Records what a step learned: whether any process was asked to stop.
  void merge_agreed(bool wished) { agreed_ = agreed_ || wished; }
  /// Called before a step. Returns whether to stop, the same on all processes, and clears the request.
  bool take();
  /// Whether a call that can run alone or within train must stop. Within train the flag stays set, so that
  /// the run itself stops at its next step boundary.
  bool ends_call() { return asked() && (in_train_ || flag_->exchange(false)); }

  /// Marks a run of train for as long as it exists.
  class InTrain {
   public:
    explicit InTrain(Cancel* cancel) : cancel_(*cancel) {
      cancel_.begin();
      cancel_.in_train_ = true;
    }
    ~InTrain() { cancel_.in_train_ = false; }
    InTrain(const InTrain&) = delete;
    InTrain& operator=(const InTrain&) = delete;

   private:
    Cancel& cancel_;
  };

 private:
  /// Only the thread that made the call can have a poll; the other ranks' threads see the flag.
  bool asked() {
    if (interrupted()) flag_->store(true);
    return flag_->load();
  }

  std::atomic<bool>* const flag_;
  const Ranks& ranks_;
  bool in_train_ = false;
  bool agreed_ = false;  // some process was asked to stop, and all processes know
};

inline bool Cancel::take() {
  if (ranks_.all_local()) return asked() && flag_->exchange(false);
  if (!agreed_) return false;
  agreed_ = false;
  flag_->store(false);
  return true;
}

}  // namespace hawser::train
