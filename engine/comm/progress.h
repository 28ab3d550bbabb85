// Progress: the thread that carries out the calls of a rank's lane, in the order in which they were issued, and
// the queue between it and the thread that issues them. All memory is taken when it is made.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "engine/comm/flight_recorder.h"
#include "engine/comm/gate.h"
#include "engine/comm/transport.h"

namespace hawser::comm {

class Progress {
 public:
  static constexpr uint64_t kQueue = 512;  ///< calls in flight; one more makes the issuer wait

  /// Called on the progress thread after each call that succeeded, before it counts as done.
  using Finished = void (*)(void* user, const Call& call);

  /// Throws kUnavailable if the thread cannot be made. `spins` before sleeping.
  Progress(Transport& transport, int32_t lane, int32_t spins, Finished finished, void* user);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  int32_t lane() const { return lane_; }
  /// Queues a call; its ticket. One thread at a time. Throws the fault if there is one.
  uint64_t push(Call call);
  void wait(uint64_t ticket);
  /// What the next push returns. The issuing thread.
  uint64_t next_ticket() const { return issued_.load(std::memory_order_relaxed) + 1; }
  /// The running call was given to the device and will be done without more from here. The progress thread.
  void given(uint64_t ticket);
  /// Returns once the call was given or is done; true: done. Throws if it failed.
  bool wait_given(uint64_t ticket);
  /// Returns when nothing is in flight, however it ended.
  void drain();
  bool done(uint64_t ticket) const;
  bool idle() const { return retired_.load() == issued_.load(); }
  FlightRecorder& recorder() { return recorder_; }
  const FlightRecorder& recorder() const { return recorder_; }
  /// A fault was set by another thread: whoever waits here should look.
  void notify() { asked_.notify(); }

 private:
  void main_loop();
  void carry_out(Call& call);
  void check_ticket(uint64_t ticket) const;

  Transport& transport_;
  const int32_t lane_;
  int32_t spins_;
  Finished finished_;
  void* user_;
  std::vector<Call> queue_;
  // Ticket t lies in queue_[(t - 1) % kQueue] from `issued_` reaching t until `retired_` does.
  std::atomic<uint64_t> issued_{0}, retired_{0};
  std::atomic<uint64_t> given_{0};  ///< the newest that was
  std::atomic<uint64_t> first_failed_{~uint64_t{0}};
  std::atomic<bool> stop_{false};
  Gate asked_, answered_;  ///< for the progress thread, for the issuer
  FlightRecorder recorder_;
  std::thread thread_;
};

}  // namespace hawser::comm
