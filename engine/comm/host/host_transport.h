// HostTransport: communication between ranks, as functions that the host program provides. Everything above
// it (collectives, sums, deadlines, ledger) is part of the engine. The C API passes these functions through
// unchanged.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/comm/comm.h"

namespace hawser::comm {

/// A message to a rank: a tag, which identifies the call, and the data. Either may be empty.
struct Outgoing {
  const void* tag = nullptr;
  int64_t tag_bytes = 0;
  const void* data = nullptr;
  int64_t bytes = 0;
};
/// A message expected from a rank. Once the tag has arrived, and before any data is read, fits(user) returns
/// true if it is the expected tag. If not, no data is read.
struct Incoming {
  void* tag = nullptr;
  int64_t tag_bytes = 0;
  void* data = nullptr;
  int64_t bytes = 0;
  bool (*fits)(void* user) = nullptr;
  void* user = nullptr;
};

/// One rank's connections to all other ranks. Between two ranks, messages arrive in the order in which they
/// were sent, with unchanged sizes; a zero-sized message is never sent. All functions except abort are called
/// by one thread at a time, not always the same one.
struct HostTransport {
  void* user = nullptr;
  /// Sends `bytes` to a rank of the world; may return before the receiver has them. Must not wait for the
  /// receiver if bytes <= kEagerBytes and fewer than kEagerMessages such messages are in flight to it.
  /// Returns 0 or a status (HWS_TIMEOUT after timeout_seconds, HWS_UNAVAILABLE if the peer is gone, or the
  /// code passed to abort).
  int32_t (*send)(void* user, int32_t to_rank, const void* data, int64_t bytes,
                  double timeout_seconds) = nullptr;
  /// Receives exactly `bytes` from a rank. Returns like send.
  int32_t (*recv)(void* user, int32_t from_rank, void* data, int64_t bytes, double timeout_seconds) = nullptr;
  /// Optional: sends to and receives from one rank at the same time. NULL: the lower rank sends first.
  int32_t (*exchange)(void* user, int32_t rank, const void* out, int64_t out_bytes, void* in,
                      int64_t in_bytes, double timeout_seconds) = nullptr;
  /// Optional, only for byte streams: sends and receives tag and data of each direction as one message.
  /// Returns kRefused for an unexpected tag. NULL: a tag is a separate message.
  int32_t (*exchange_tagged)(void* user, int32_t rank, const Outgoing& out, const Incoming& in,
                             double timeout_seconds) = nullptr;
  /// Called by any thread, also during a call: this rank's running and later calls fail at once with `code`.
  /// Its peers' calls should fail as soon as possible, with code and message if the transport can carry them.
  void (*abort)(void* user, int32_t code, const char* message) = nullptr;
  /// Optional: returns why the last call failed; valid until the next call. NULL or "": the engine makes a
  /// text from the status. It must return "" if the call itself timed out.
  const char* (*message)(void* user) = nullptr;
  /// Optional: returns 0, or the status with which a call would fail at once because another rank has failed.
  /// It must never wait.
  int32_t (*look)(void* user) = nullptr;
  /// Optional: called once, when nothing uses the transport any more.
  void (*destroy)(void* user) = nullptr;
};

/// Most bytes of a message to other ranks; longer texts are cut.
inline constexpr size_t kMostReasonBytes = 4096;

/// Returned by exchange_tagged for an unexpected tag; it is not a status of the C API.
inline constexpr int32_t kRefused = -1;

inline constexpr int64_t kEagerBytes = 512;
inline constexpr int32_t kEagerMessages = 2;

/// Creates a Comm of one local rank over `transport`, which it then owns, even if this throws:
/// kInvalidArgument for a missing function or a rank outside the world. After an error the transport cannot
/// be used again; make a new comm.
std::shared_ptr<Comm> make_host(const HostTransport& transport, int32_t rank, int32_t world_size);

}  // namespace hawser::comm
