// Progress: the thread that runs the calls of a rank's lane, in the order of issue, and the queue between it
// and the thread that issues them. It allocates all memory at construction.
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
  static constexpr uint64_t kQueue = 512;  ///< most calls in flight; the next push waits

  /// Called on the progress thread after each call that succeeded, before it counts as done.
  using Finished = void (*)(void* user, const Call& call);

  /// Throws kUnavailable if the thread cannot be created. `spins`: polls before sleeping. `at_once`: there is
  /// no thread, and push runs the call.
  Progress(Transport& transport, int32_t lane, bool at_once, int32_t spins, Finished finished, void* user);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  int32_t lane() const { return lane_; }
  /// Queues a call and returns its ticket. Only one thread at a time may call it. Throws the fault if there
  /// is one.
  uint64_t push(Call call);
  void wait(uint64_t ticket);
  /// Returns the ticket that the next push will return. The issuing thread calls it.
  uint64_t next_ticket() const { return issued_.load(std::memory_order_relaxed) + 1; }
  /// Reports that the running call has been submitted to the device and will complete by itself. The progress
  /// thread calls it.
  void given(uint64_t ticket);
  /// Waits until the call has been submitted or is done; returns true if done. Throws if it failed.
  bool wait_given(uint64_t ticket);
  /// Waits until nothing is in flight, with or without errors.
  void drain();
  bool done(uint64_t ticket) const;
  bool idle() const { return retired_.load() == issued_.load(); }
  FlightRecorder& recorder() { return recorder_; }
  const FlightRecorder& recorder() const { return recorder_; }
  /// Wakes the waiters after another thread has set a fault.
  void notify() { asked_.notify(); }

 private:
  /// Waits on behalf of the issuing thread until done() or the call of `ticket` is retired.
  template <typename Done>
  void wait_for(uint64_t ticket, const Done& done);
  void main_loop();
  void run_next();
  void carry_out(Call& call);
  void check_ticket(uint64_t ticket) const;

  Transport& transport_;
  const int32_t lane_;
  int32_t spins_;
  Finished finished_;
  void* user_;
  std::vector<Call> queue_;
  // Ticket t is in queue_[(t - 1) % kQueue] from the time when `issued_` reaches t until `retired_` does.
  std::atomic<uint64_t> issued_{0}, retired_{0};
  std::atomic<uint64_t> given_{0};  ///< the newest submitted ticket
  std::atomic<uint64_t> first_failed_{~uint64_t{0}};
  std::atomic<bool> stop_{false};
  Gate asked_, answered_;  ///< block the progress thread and the issuing thread
  FlightRecorder recorder_;
  std::thread thread_;
};

}  // namespace hawser::comm
