// CallMarks: the events that order calls on memory of a device relative to its compute stream.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/progress.h"
#include "engine/device/check.h"

namespace hawser::comm {

struct FreeEvent {
  device::Device* device = nullptr;
  void operator()(device::Event* event) const { device->free_event(event); }
};
/// An event that marks a point in a stream.
using Mark = std::unique_ptr<device::Event, FreeEvent>;

inline Mark make_mark(device::Device& device) {
  device::Event* event = nullptr;
  device::check(device, device.make_event(&event));
  return Mark(event, FreeEvent{&device});
}

struct Marks {
  explicit Marks(device::Device& device) : reached(make_mark(device)), done(make_mark(device)) {}
  Mark reached;  ///< the compute stream has done its work from before the call
  Mark done;     ///< the call is done
};

/// The events of all calls that may be in flight, by ticket.
class CallMarks {
 public:
  explicit CallMarks(device::Device& device) {
    for (uint64_t i = 0; i <= Progress::kQueue; ++i) marks_.emplace_back(device);
  }
  Marks& of(uint64_t ticket) { return marks_[ticket % marks_.size()]; }

 private:
  std::vector<Marks> marks_;
};

}  // namespace hawser::comm
