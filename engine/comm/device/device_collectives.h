// DeviceCollectives: runs a rank's calls on memory of its device. Bytes go from device to device (PeerLink),
// and the device's own kernels sum them in the same order as every other transport. Hosts exchange nothing:
// each call is added to a hash that ranks compare once a step (CallTrail). Only if a device times out do the
// hosts compare the call, to name the rank that did not arrive or that made another call.
//
// Order: the issuing thread records an event on the compute stream (`reached`) and continues; the
// communication stream waits for that event and later records its own (`done`), for which `follow` makes the
// compute stream wait. The progress thread runs one call after the other and watches each until it is done.
//
// With DeviceUse::by_issuer the issuing thread submits calls, and the progress thread only watches them. They
// may be captured: both events are then part of the graph, and for each of its launches only the first call
// is watched.
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

  // The issuing thread calls the following functions.

  /// Connects the devices of the members of group `index`, which has the same members as `hosts`; they
  /// exchange addresses over `hosts`.
  void connect(int32_t index, const std::string& name, ProcessGroup& hosts);
  void issues(const Call& call, uint64_t ticket) override;
  bool captures(const Call& call, QueuedGroup* group) override;
  void follow(uint64_t ticket) override;
  const RegisteredLinks& registered() const { return registered_; }
  const CallTrail& trail() const { return trail_; }

  // The following functions implement DeviceComm.

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
    std::vector<int32_t> ranks;  ///< world ranks, by member
    std::unique_ptr<device::PeerLink, Freed> link;
  };
  static device::StreamId stream_of(device::Device& device, int32_t lane);
  void register_memory(Group& group, ProcessGroup& hosts);
  bool registers(Group& group, std::string* why) const;
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
  int64_t most_relayed_bytes() const override { return 0; }  // one call sends all messages of a member

  device::Device& device_;
  const device::StreamId on_;
  Transport& transport_;
  Progress& progress_;
  const double timeout_seconds_;
  std::map<int32_t, Group> groups_;  ///< keyed by index; grows only between calls
  CallTrail& trail_;
  CallMarks marks_;
  Messages in_, out_;  ///< messages of all_to_all
  OrderedSums sums_;
  Group* group_ = nullptr;  ///< group of the call that is being run
  const bool by_issuer_;
  void* const first_byte_;
  const int32_t most_processors_;
  const PeerMemory* const memory_;
  RegisteredLinks registered_;
  Marks in_graph_;
  CallsOfGraph captured_;  ///< null unless calls are being captured
};

}  // namespace hawser::comm
