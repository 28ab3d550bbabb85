// Tests of the ring of a rank's last calls: its contents, and that concurrent readers see only complete
// entries.
#include "engine/comm/flight_recorder.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/harness/spawn_ranks.h"

namespace hawser::testing {
namespace flight_recorder_test {

using comm::CallState, comm::FlightRecorder, comm::Operation, comm::Record;

/// All fields of a call are functions of its ticket, so that a mixed entry is detected.
Record call(uint64_t ticket) {
  Record record;
  record.operation = static_cast<Operation>(ticket % 9);
  record.group = static_cast<int32_t>(ticket % 1000);
  record.ticket = ticket;
  record.sequence = 3 * ticket;
  record.bytes = static_cast<int64_t>(7 * ticket);
  record.issued = static_cast<double>(ticket);
  return record;
}

void expect_whole(const Record& r) {
  const Record want = call(r.ticket);
  EXPECT_EQ(r.operation, want.operation);
  EXPECT_EQ(r.group, want.group);
  EXPECT_EQ(r.sequence, want.sequence);
  EXPECT_EQ(r.bytes, want.bytes);
  EXPECT_EQ(r.issued, want.issued);
  EXPECT_TRUE(r.state == CallState::kQueued || r.begun == r.issued + 0.25);
  EXPECT_TRUE(r.state != CallState::kFinished || r.ended == r.issued + 0.5);
}

void fly(FlightRecorder& recorder, uint64_t ticket, CallState end) {
  const auto time = static_cast<double>(ticket);
  recorder.queued(call(ticket));
  recorder.running(ticket, time + 0.25);
  recorder.ended(ticket, time + 0.5, end);
}

TEST(FlightRecorder, HoldsTheLastCallsWhateverBecameOfThem) {
  FlightRecorder recorder;
  std::vector<Record> out(4096);
  EXPECT_EQ(recorder.recall(out.data(), 10), 0);
  for (uint64_t t = 1; t <= 3000; ++t)
    fly(recorder, t, t == 2999 ? CallState::kFailed : CallState::kFinished);
  recorder.queued(call(3001));
  recorder.running(3001, 3001.25);
  recorder.queued(call(3002));
  EXPECT_EQ(recorder.recall(out.data(), 4096), 2048);
  EXPECT_EQ(out[0].ticket, 3002u - 2048 + 1);
  for (int64_t i = 0; i < 2048; ++i) expect_whole(out[i]);
  EXPECT_EQ(recorder.recall(out.data(), 4), 4);
  EXPECT_EQ(out[0].state, CallState::kFailed);
  EXPECT_EQ(out[1].state, CallState::kFinished);
  EXPECT_EQ(out[2].state, CallState::kRunning);
  EXPECT_EQ(out[2].ended, 0);
  EXPECT_EQ(out[3].state, CallState::kQueued);
  EXPECT_EQ(recorder.take_finished(out.data(), 4096), 3000 - (3002 - 2048) - 1) << "all but the failed one";
}

TEST(FlightRecorder, ReadersBesideWritersSeeWholeEntries) {
  FlightRecorder recorder;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    std::vector<Record> out(FlightRecorder::kEntries);
    while (!over) {
      const int64_t count = recorder.recall(out.data(), FlightRecorder::kEntries);
      for (int64_t i = 0; i < count; ++i) expect_whole(out[i]);
      for (int64_t i = 1; i < count; ++i) EXPECT_LT(out[i - 1].ticket, out[i].ticket);
    }
  });
  for (uint64_t t = 1; t <= 20'000; ++t) fly(recorder, t, CallState::kFinished);
  over = true;
  reader.join();
}

TEST(FlightRecorder, ARankSaysWhatItDidInWhichGroup) {
  spawn_ranks(3, [](comm::RankComm& rank) {
    const auto world = world_group(rank);
    const auto self = rank.make_group({rank.rank()}, "self");
    world->wait(world->barrier());
    int64_t x = 1;
    self->wait(self->all_reduce_i64(&x, 1));
    world->wait(world->all_reduce_i64(&x, 1));
    std::vector<Record> out(10);
    ASSERT_EQ(rank.recall(out.data(), 10), 3);
    EXPECT_EQ(rank.group_names()[0].name, "world");
    EXPECT_EQ(rank.group_names()[1].members, std::vector<int32_t>{rank.rank()});
    EXPECT_EQ(out[0].operation, Operation::kBarrier);
    EXPECT_EQ(out[1].group, 1);
    EXPECT_EQ(out[2].sequence, 1u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(out[i].state, CallState::kFinished);
  });
}

}  // namespace flight_recorder_test
}  // namespace hawser::testing
