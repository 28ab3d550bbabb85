// FlightRecorder: stores a rank's last 2,048 calls, finished or not, for timelines of steps and for the
// analysis of failures. It is lock-free: the issuing thread and the progress thread write, and any thread may
// read at the same time. A reader never sees a partial entry; an entry that is overwritten meanwhile is left
// out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "engine/comm/ledger.h"

namespace hawser::comm {

class FlightRecorder {
 public:
  static constexpr uint64_t kEntries = 2048;

  // The issuing thread calls queued with ascending tickets; the progress thread calls the next two.
  void queued(const Record& record);
  void running(uint64_t ticket, double now);
  void ended(uint64_t ticket, double now, CallState state);

  /// Copies the calls that ended since the last take_finished, oldest first, at most `most`. Calls older than
  /// the last 2,048 issued are lost. Only one thread at a time may call it.
  int64_t take_finished(Record* out, int64_t most);
  /// Copies the last calls, at most `most`, oldest first. Any thread may call it.
  int64_t recall(Record* out, int64_t most) const;

 private:
  /// Writers set `ticket` to 0 before they store fields; readers load fields before they check it again.
  struct Entry {
    std::atomic<uint64_t> ticket{0}, sequence{0};
    std::atomic<int64_t> bytes{0};
    std::atomic<int32_t> group{0};
    std::atomic<Operation> operation{Operation::kBarrier};
    std::atomic<CallState> state{CallState::kQueued};
    std::atomic<double> issued{0}, begun{0}, ended{0};
  };
  bool read(uint64_t ticket, Record* out) const;

  std::array<Entry, kEntries> entries_{};
  std::atomic<uint64_t> issued_{0}, ended_{0};  ///< tickets
  uint64_t taken_ = 0;
};

}  // namespace hawser::comm
