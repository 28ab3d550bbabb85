// Link: a HostTransport as C++ sees it: deadlines in place of timeouts, errors in place of statuses,
// ownership.
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
  /// Ranks are those of the world. Zero bytes: nothing happens. Throws Error with the transport's code.
  void send(int32_t to, const void* data, int64_t bytes, double deadline);
  /// False if nothing came in time; other failures throw.
  bool recv_in_time(int32_t from, void* data, int64_t bytes, double deadline);
  /// Both ways with one rank; both sides call it, in the same order of pairs on all ranks.
  void exchange(int32_t peer, const void* out, int64_t out_bytes, void* in, int64_t in_bytes,
                double deadline);
  enum class Outcome { kDone, kRefused, kTooLate };
  /// The same with tags ahead of the data; either way may be empty. kRefused: the tag that came does not fit.
  /// kTooLate: not all came in time. Other failures throw.
  Outcome exchange_tagged(int32_t peer, const Outgoing& out, const Incoming& in, double deadline);
  /// Throws what exchange throws when time is over.
  [[noreturn]] void fail_late(const char* verb, int32_t peer) const;
  /// Messages that were sent whole.
  int64_t sent_messages() const { return sent_messages_; }
  /// Throws why later calls would fail, if the transport knows. Waits for nothing.
  void look();
  void abort(const Error& error) noexcept;
  /// Of all that was sent whole.
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
