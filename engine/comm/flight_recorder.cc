#include "engine/comm/flight_recorder.h"

#include <algorithm>

namespace hawser::comm {
namespace {

constexpr auto kRelease = std::memory_order_release;
constexpr auto kAcquire = std::memory_order_acquire;

}  // namespace

void FlightRecorder::queued(const Record& record) {
  Entry& entry = entries_[record.ticket % kEntries];
  entry.ticket.store(0, kRelease);
  entry.sequence.store(record.sequence, kRelease);
  entry.bytes.store(record.bytes, kRelease);
  entry.group.store(record.group, kRelease);
  entry.operation.store(record.operation, kRelease);
  entry.state.store(CallState::kQueued, kRelease);
  entry.issued.store(record.issued, kRelease);
  entry.begun.store(0, kRelease);
  entry.ended.store(0, kRelease);
  entry.ticket.store(record.ticket, kRelease);
  issued_.store(record.ticket, kRelease);
}

void FlightRecorder::running(uint64_t ticket, double now) {
  Entry& entry = entries_[ticket % kEntries];
  entry.begun.store(now, kRelease);
  entry.state.store(CallState::kRunning, kRelease);
}

void FlightRecorder::ended(uint64_t ticket, double now, CallState state) {
  Entry& entry = entries_[ticket % kEntries];
  entry.ended.store(now, kRelease);
  entry.state.store(state, kRelease);
  ended_.store(ticket, kRelease);
}

bool FlightRecorder::read(uint64_t ticket, Record* out) const {
  const Entry& entry = entries_[ticket % kEntries];
  if (entry.ticket.load(kAcquire) != ticket) return false;
  out->ticket = ticket;
  out->state = entry.state.load(kAcquire);  // loaded before the times, so that they exist for this state
  out->sequence = entry.sequence.load(kAcquire);
  out->bytes = entry.bytes.load(kAcquire);
  out->group = entry.group.load(kAcquire);
  out->operation = entry.operation.load(kAcquire);
  out->issued = entry.issued.load(kAcquire);
  out->begun = entry.begun.load(kAcquire);
  out->ended = entry.ended.load(kAcquire);
  return entry.ticket.load(kAcquire) == ticket;
}

int64_t FlightRecorder::take_finished(Record* out, int64_t most) {
  const uint64_t ended = ended_.load(kAcquire), issued = issued_.load(kAcquire);
  taken_ = std::max(taken_, issued - std::min(issued, kEntries));
  int64_t count = 0;
  while (taken_ < ended && count < most) {
    if (read(++taken_, out + count) && out[count].state == CallState::kFinished) ++count;
  }
  return count;
}

int64_t FlightRecorder::recall(Record* out, int64_t most) const {
  const uint64_t last = issued_.load(kAcquire);
  const uint64_t wanted =
      std::min<uint64_t>({last, kEntries, static_cast<uint64_t>(std::max<int64_t>(most, 0))});
  int64_t count = 0;
  for (uint64_t ticket = last - wanted + 1; ticket <= last; ++ticket) {
    if (read(ticket, out + count)) ++count;
  }
  return count;
}

}  // namespace hawser::comm
