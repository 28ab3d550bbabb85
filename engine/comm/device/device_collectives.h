// A rank's calls on memory of its device. Bytes go from device to device (PeerLink), and the device's own
// kernels sum them in the order of every other transport. Hosts exchange nothing: each call goes into a hash
// that ranks compare once a step (CallTrail). Only if devices wait in vain do their hosts meet, to name the
// rank that did not come or came with another call.
//
// Order: the issuing thread marks the compute stream (`reached`) and goes on; the communication stream begins
// behind that mark and sets one of its own (`done`), which `follow` makes the compute stream wait for. The
// progress thread carries out one call after the other and watches over each until it is done.
//
// Of calls by their issuer (DeviceUse::by_issuer) the progress thread only watches. They may be captured:
// both marks are then part of the graph, and each of its launches is watched as one call, the first.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/comm.h"
#include "engine/comm/device/call_marks.h"
#include "engine/comm/device/call_trail.h"
#include "engine/comm/device/device_calls.h"
#include "engine/comm/ordered_sums.h"
#include "engine/comm/progress.h"
#include "engine/device/device.h"

namespace hawser::comm {

struct CapturedCalls {
  struct One {
    Call call;
    QueuedGroup* group;
  };
  std::vector<One> calls;
};

class DeviceCollectives final : public DeviceCalls, private RowExchange {
 public:
  /// Allocates all memory and events. The arguments must outlive this object.
  DeviceCollectives(const DeviceUse& use, Transport& transport, Progress& progress, CallTrail& trail);
  /// Waits until none of its calls is in flight.
  ~DeviceCollectives() override;

  // For the issuing thread.

  /// Connects the devices of the members of group `index`, which are those of `hosts`; they exchange
  /// addresses over it.
  void connect(int32_t index, const std::string& name, ProcessGroup& hosts);
  void issues(const Call& call, uint64_t ticket) override;
  bool captures(const Call& call, QueuedGroup* group) override;
  void follow(uint64_t ticket) override;
  const CallTrail& trail() const { return trail_; }

  // DeviceComm

  void wait();
  void drain() { progress_.drain(); }
  void begin_capture();
  CallsOfGraph end_capture();
  void launches(const CapturedCalls& calls);
  void launched(const CapturedCalls& calls);

  void run(const Call& call) override;

 private:
  struct Freed {
    void operator()(device::PeerLink* link) const { link->destroy(); }
  };
  struct Group {
    std::string name;
    int32_t members = 0, member = 0;
    std::vector<int32_t> ranks;  ///< of the world, by member
    std::unique_ptr<device::PeerLink, Freed> link;
  };
  static device::StreamId stream_of(device::Device& device, int32_t lane);
  void greet(Group& group);
  void fork(const Call& call, Mark& reached, Mark& done);
  void check(device::Status status) const;
  static void check_link(const Group& group, device::Status status);
  [[noreturn]] void fail_with_reason(const Error& error);
  [[noreturn]] void fail_with_cause(const Group& group, const Call& call, const Error& error);
  static device::Status stopped(void* self) noexcept;

  void give(const Call& call);
  void all_gather(const Call& call);
  void all_to_all(const Call& call);
  void all_to_all(const Row& row, char* in, const Messages& received, const char* out,
                  const Messages& sent) override;
  bool all_gather(char* all, const void* own, int64_t bytes) override;
  int64_t most_relayed_bytes() const override { return 0; }  // all messages of a member are one call

  device::Device& device_;
  const device::StreamId on_;
  Transport& transport_;
  Progress& progress_;
  const double timeout_seconds_;
  std::map<int32_t, Group> groups_;  ///< keyed by index; grows only between calls
  CallTrail& trail_;
  CallMarks marks_;
  Messages in_, out_;  ///< of all_to_all
  OrderedSums sums_;
  Group* group_ = nullptr;  ///< group of the call that is being carried out
  const bool by_issuer_;
  void* const first_byte_;
  const int32_t most_processors_;
  Marks in_graph_;
  CallsOfGraph captured_;  ///< null unless calls are being captured
};

}  // namespace hawser::comm
