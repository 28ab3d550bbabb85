// HostTransport: how the ranks reach each other, as functions that the host program supplies. Everything
// above it (collectives, sums, deadlines, ledger) is the engine's. The C API hands these functions through as
// they are.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/comm/comm.h"

namespace hawser::comm {

/// What goes to a rank: a tag, which says of which call the data is, and the data. Either may be empty.
struct Outgoing {
  const void* tag = nullptr;
  int64_t tag_bytes = 0;
  const void* data = nullptr;
  int64_t bytes = 0;
};
/// What is expected from it. Once the tag is there, and before any data is taken, fits(user) says whether it is
/// the one that is expected; no data is taken if not.
struct Incoming {
  void* tag = nullptr;
  int64_t tag_bytes = 0;
  void* data = nullptr;
  int64_t bytes = 0;
  bool (*fits)(void* user) = nullptr;
  void* user = nullptr;
};

/// One rank's connections to all others. Between two ranks, messages arrive in the order in which they were
/// sent and with the sizes that they were sent with; a zero-sized message is never sent. All functions but
/// abort are called by one thread at a time, not always the same one.
struct HostTransport {
  void* user = nullptr;
  /// Sends `bytes` to a rank of the world; may return before the receiver has them. Must not wait for the
  /// receiver if bytes <= kEagerBytes and fewer than kEagerMessages such are under way to it. Returns 0 or a
  /// status (HWS_TIMEOUT after timeout_seconds, HWS_UNAVAILABLE where the peer is gone, what abort was told).
  int32_t (*send)(void* user, int32_t to_rank, const void* data, int64_t bytes,
                  double timeout_seconds) = nullptr;
  /// Receives exactly `bytes` from a rank. Returns as send does.
  int32_t (*recv)(void* user, int32_t from_rank, void* data, int64_t bytes, double timeout_seconds) = nullptr;
  /// Optional: send and recv with one rank at the same time. NULL: the lower rank sends first.
  int32_t (*exchange)(void* user, int32_t rank, const void* out, int64_t out_bytes, void* in,
                      int64_t in_bytes, double timeout_seconds) = nullptr;
  /// Optional, and only for connections that keep no borders between messages: tag and data of each way as one
  /// message. A tag that does not fit ends it with kRefused. NULL: a tag is a message of its own.
  int32_t (*exchange_tagged)(void* user, int32_t rank, const Outgoing& out, const Incoming& in,
                             double timeout_seconds) = nullptr;
  /// Any thread, also beside a running call: this rank's running and later calls fail at once with `code`.
  /// Its peers' should fail as soon as they can; a transport that can carry them gives them code and message
  /// too.
  void (*abort)(void* user, int32_t code, const char* message) = nullptr;
  /// Optional: why the last call failed; valid until the next call. NULL or "": a text is made from the
  /// status. Must be "" where the call itself ran out of time.
  const char* (*message)(void* user) = nullptr;
  /// Optional: 0, or the status that a call would fail with at once, because another rank has failed. Waits
  /// for nothing.
  int32_t (*look)(void* user) = nullptr;
  /// Optional: called once, when nothing uses the transport any more.
  void (*destroy)(void* user) = nullptr;
};

/// A message's text that travels to other ranks is cut to this.
inline constexpr size_t kMostReasonBytes = 4096;

/// No status of the C API: what exchange_tagged returns for a tag that does not fit.
inline constexpr int32_t kRefused = -1;

inline constexpr int64_t kEagerBytes = 512;
inline constexpr int32_t kEagerMessages = 2;

/// A Comm of one local rank over `transport`, which it owns from now on, also if this throws:
/// kInvalidArgument for a missing function and a rank outside the world. After an error the transport is used
/// up; make a new comm.
std::shared_ptr<Comm> make_host(const HostTransport& transport, int32_t rank, int32_t world_size);

}  // namespace hawser::comm
