// Link: wraps a HostTransport as a C++ class with deadlines instead of timeouts, errors instead of statuses,
// and ownership.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/fault.h"
#include "engine/comm/host/host_transport.h"

namespace hawser::comm {

class Link {
 public:
  Link(const HostTransport& transport, int32_t rank) : transport_(transport), rank_(rank) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int32_t rank() const { return rank_; }
  /// Sends to a world rank, as all functions here. Zero bytes send nothing. Throws Error with the transport's
  /// code.
  void send(int32_t to, const void* data, int64_t bytes, double deadline);
  /// Receives. Returns false if nothing arrived in time; throws for other failures.
  bool recv_in_time(int32_t from, void* data, int64_t bytes, double deadline);
  /// Sends to and receives from one rank. Both sides call it, in the same order of pairs on all ranks.
  void exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                double deadline);
  enum class Outcome { kDone, kRefused, kTooLate };
  /// Exchanges messages with tags before the data; either direction may be empty. kRefused: the received tag
  /// is unexpected. kTooLate: not everything arrived in time. Throws for other failures.
  Outcome exchange_tagged(int32_t peer, const Outgoing& out, const Incoming& in, double deadline);
  /// Throws the timeout error of exchange.
  [[noreturn]] void fail_late(const char* verb, int32_t peer) const;
  /// Returns the number of messages sent completely.
  int64_t sent_messages() const { return sent_messages_; }
  /// Throws the reason why later calls would fail, if the transport has one. It never waits.
  void look();
  void abort(const Error& error) noexcept;
  /// Returns the bytes of the messages sent completely.
  int64_t sent_bytes() const { return sent_bytes_; }

 private:
  std::string reason() const;
  void check(int32_t status, const char* verb, int32_t peer);
  int32_t move(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes, double deadline);
  void count(int64_t bytes);

  HostTransport transport_;
  int32_t rank_;
  int64_t sent_bytes_ = 0, sent_messages_ = 0;
};

}  // namespace hawser::comm
