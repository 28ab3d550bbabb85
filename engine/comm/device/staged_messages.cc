#include "engine/comm/device/staged_messages.h"

namespace hawser::comm {

StagedMessages::StagedMessages(const HostStaging& staging, Transport& transport, Progress& progress)
    : device_(*staging.device),
      staging_(staging.pinned),
      staging_bytes_(staging.bytes),
      transport_(transport),
      progress_(progress),
      marks_(device_) {
  check(device_.make_stream(&on_));
}

StagedMessages::~StagedMessages() {
  progress_.drain();
  (void)device_.synchronize(on_);
}

void StagedMessages::issues(const Call& call, uint64_t ticket) {
  const Operation operation = call.signature.operation;
  HWS_CHECK((operation == Operation::kSend || operation == Operation::kRecv) && call.bytes <= staging_bytes_);
  check(device_.record(marks_.of(ticket).reached.get(), device::StreamId::kCompute));
}

void StagedMessages::follow(uint64_t ticket) {
  if (!progress_.wait_given(ticket))
    check(device_.wait(marks_.of(ticket).done.get(), device::StreamId::kCompute));
}

/// Waits for the copy after an error, because the call's memory is free when the call ends.
void StagedMessages::run(const Call& call) {
  try {
    call.signature.operation == Operation::kSend ? send(call) : receive(call);
  } catch (...) {
    (void)device_.synchronize(on_);
    throw;
  }
}

void StagedMessages::send(const Call& call) {
  check(device_.wait(marks_.of(call.ticket).reached.get(), on_));
  check(device_.copy_to_host(staging_, call.in, call.bytes, on_));
  copied(call);
  Call hosts = call;
  hosts.in = staging_;
  transport_.run(hosts);
}

void StagedMessages::receive(const Call& call) {
  Call hosts = call;
  hosts.out = staging_;
  transport_.run(hosts);
  check(device_.wait(marks_.of(call.ticket).reached.get(), on_));
  check(device_.copy_to_device(call.out, staging_, call.bytes, on_));
  copied(call);
}

void StagedMessages::copied(const Call& call) {
  device::Event* const done = marks_.of(call.ticket).done.get();
  check(device_.record(done, on_));
  progress_.given(call.ticket);
  check(device_.wait_on_host(done));
}

}  // namespace hawser::comm
