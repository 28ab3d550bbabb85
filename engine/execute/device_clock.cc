#include "engine/execute/device_clock.h"

#include "engine/comm/gate.h"

namespace hawser::train {

// Delegates to the other constructor first, so that the destructor frees the events if this constructor
// fails.
DeviceClock::DeviceClock(device::Device& device) : DeviceClock(device, 2 * kMostSpans) {
  device::check(device_, device_.make_event(&zero_));
  for (device::Event*& event : events_) device::check(device_, device_.make_event(&event));
}

DeviceClock::~DeviceClock() {
  for (device::Event* event : events_)
    if (event != nullptr) device_.free_event(event);
  if (zero_ != nullptr) device_.free_event(zero_);
}

void DeviceClock::start() {
  device::check(device_, device_.synchronize(device::StreamId::kCompute));
  device::check(device_, device_.record(zero_, device::StreamId::kCompute));
  device::check(device_, device_.wait_on_host(zero_));
  zero_seconds_ = steady_seconds();
  clear();
}

DeviceClock::Span DeviceClock::span(size_t i) {
  device::check(device_, device_.wait_on_host(events_[2 * i + 1]));
  return {seconds_of(events_[2 * i]), seconds_of(events_[2 * i + 1])};
}

double DeviceClock::seconds_of(device::Event* event) {
  double seconds = 0;
  device::check(device_, device_.elapsed(zero_, event, &seconds));
  return zero_seconds_ + seconds;
}

}  // namespace hawser::train
