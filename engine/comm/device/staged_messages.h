// StagedMessages: runs the messages of a rank in one lane that are in memory of its device and go through
// host memory. The lane's thread copies: to pinned memory before it sends, and to the device after it has
// received. So the issuing thread waits for no message, and pinned memory for one message is enough, because
// the thread runs one call after the other.
//
// Order: a copy starts after the work that the compute stream had when the call was issued, on a stream of
// this lane. `follow` makes the compute stream wait for that copy. For a receive, the host waits until the
// copy can be submitted to the device, that is until the message has arrived.
#pragma once

#include "engine/comm/comm.h"
#include "engine/comm/device/call_marks.h"
#include "engine/comm/device/device_calls.h"

namespace hawser::comm {

class StagedMessages final : public DeviceCalls {
 public:
  /// Creates a stream and events. The arguments, and the objects to which `staging` points, must outlive this
  /// object.
  StagedMessages(const HostStaging& staging, Transport& transport, Progress& progress);
  /// Waits until no call of the lane is in flight.
  ~StagedMessages() override;

  void issues(const Call& call, uint64_t ticket) override;
  void follow(uint64_t ticket) override;
  void run(const Call& call) override;

 private:
  void send(const Call& call);
  void receive(const Call& call);
  void copied(const Call& call);
  void check(device::Status status) const { device::check(device_, status); }

  device::Device& device_;
  void* const staging_;
  const int64_t staging_bytes_;
  Transport& transport_;
  Progress& progress_;
  device::StreamId on_ = device::StreamId::kCommunication;
  CallMarks marks_;
};

}  // namespace hawser::comm
