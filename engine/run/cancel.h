// Cancel: a request of the host program that the running call stop. Any thread may set the flag at any time,
// and the interrupt poll of the calling thread can set it too. The call that stops because of the request
// clears it, and a later call ignores it. Processes stop together: the reduction of the next step spreads a
// request that one of them received during train.
#pragma once

#include <atomic>

#include "engine/base/interrupt.h"
#include "engine/ranks/ranks.h"

namespace hawser::train {

class Cancel {
 public:
  /// Both arguments must outlive this object.
  Cancel(std::atomic<bool>* flag, const Ranks& ranks) : flag_(flag), ranks_(ranks) {}

  /// Called when a call that can be cancelled begins. Drops earlier requests, unless train makes the call.
  void begin() {
    if (in_train_) return;
    flag_->store(false);
    agreed_ = false;
  }
  /// True if this process was asked to stop its run of train. The step shares this with the other processes.
  bool is_requested() { return in_train_ && asked(); }
  /// Records the result of a step's reduction: whether any process was asked to stop.
  void merge_agreed(bool wished) { agreed_ = agreed_ || wished; }
  /// Called before a step. Returns whether to stop, the same on all processes, and clears the request.
  bool take();
  /// True if a call that can run alone or within train must stop. Within train the flag stays set, so that
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
  /// Only the calling thread can have a poll; the threads of other ranks read the flag.
  bool asked() {
    if (interrupted()) flag_->store(true);
    return flag_->load();
  }

  std::atomic<bool>* const flag_;
  const Ranks& ranks_;
  bool in_train_ = false;
  bool agreed_ = false;  // a step's reduction reported a request to all processes
};

inline bool Cancel::take() {
  if (ranks_.all_local()) return asked() && flag_->exchange(false);
  if (!agreed_) return false;
  agreed_ = false;
  flag_->store(false);
  return true;
}

}  // namespace hawser::train
