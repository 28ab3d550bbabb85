// Store protocol: the messages between a rank and the rendezvous store after the handshake, each a fixed
// header, then key and value. Sizes are bounded. The connection represents the rank: at first the rank sends
// requests and the store answers; after kWatch both only send heartbeats, until one reports a fault or
// leaves.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <type_traits>

namespace hawser::comm {

enum class StoreOp : uint32_t {
  kArrived,  ///< answered once all ranks have arrived, with rank 0's silence_seconds as text; or at the
             ///< timeout with the ranks that are missing
  kSet,      ///< stores a key and its value
  kGet,      ///< answered once the key is set, or at the timeout
  kWatch,    ///< from now on the store sends unprompted: heartbeats, and the fault once there is one
  kMeet,     ///< from a watcher; value: MeetHead, its text, ranks. Answered once these ranks have sent kMeet
             ///< with this key
  kBeat,     ///< a heartbeat; not answered
  kFault,    ///< value: int32 code, message. This rank has failed; not answered
  kBye,      ///< this rank leaves without an error; not answered
};

struct StoreRequest {
  static constexpr uint64_t kMark = 0x35726f74732d7768ull;  ///< "hw-stor5"
  uint64_t mark = kMark;
  StoreOp op = StoreOp::kBeat;
  uint32_t key_bytes = 0, value_bytes = 0, zero = 0;
  double timeout_seconds = 0;
};

/// Head of a kMeet's value: the size of its text in bytes, and the number of ranks (int32) whose texts it
/// requests. If ranks have published nothing under this key at the timeout, their text in the answer is
/// empty.
struct MeetHead {
  uint32_t text_bytes = 0, ranks = 0;
};

struct StoreAnswer {
  static constexpr int32_t kBeat = -1;  ///< a heartbeat to a waiting or watching rank
  static constexpr int32_t kMet = -2;   ///< answer to kMeet: the text of each rank, after its uint32 size
  int32_t code = 0;                     ///< a Code, with its message as the value; kBeat has none
  uint32_t value_bytes = 0;
};

inline constexpr uint32_t kMostKeyBytes = 256, kMostValueBytes = 64u << 10;
inline constexpr uint32_t kMostAnswerBytes = 16u << 20;  ///< most bytes of the answer to kMeet

inline constexpr uint32_t kMostKeys = 1u << 20;

/// Sent with kCancelled when rank 0's process leaves the job without an error.
inline constexpr const char* kEndedInPeace = "rank 0 has ended";

/// Returns why the second process with a rank is refused.
inline std::string came_twice(int32_t rank, int32_t world_size) {
  return fmt::format("two processes have rank {} of {}; give each process its own rank", rank, world_size);
}

/// Returns the interval of heartbeats, if a process counts as stopped or cut off after `silence_seconds`
/// without one.
inline constexpr double kLongestBeat = 1;
inline double beat_seconds(double silence_seconds) {
  return silence_seconds < 4 * kLongestBeat ? silence_seconds / 4 : kLongestBeat;
}

static_assert(std::is_trivially_copyable_v<StoreRequest> && std::is_trivially_copyable_v<StoreAnswer>);

}  // namespace hawser::comm
