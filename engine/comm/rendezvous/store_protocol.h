// What a rank and the rendezvous store say to each other once the handshake is over: a fixed head, then key
// and value. Sizes are bounded. The one connection stands for the rank: first the rank asks and the store
// answers; from kWatch on both only give signs of life, until one tells of a fault or leaves.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hawser::comm {

enum class StoreOp : uint32_t {
  kArrived,  ///< answered once all ranks have come, or at the timeout with who has not
  kSet,      ///< key, value
  kGet,      ///< answered once the key is set, or at the timeout
  kWatch,    ///< from here on the store answers unasked: beats, and the fault once there is one
  kMeet,   ///< by who watches; value: MeetHead, what it says, ranks. Answered once these ranks have met, too
  kBeat,   ///< a sign of life; not answered
  kFault,  ///< value: int32 code, message. This rank has failed; not answered
  kBye,    ///< this rank leaves in peace; not answered
};

struct StoreRequest {
  static constexpr uint64_t kMark = 0x34726f74732d7768ull;  ///< "hw-stor4"
  uint64_t mark = kMark;
  StoreOp op = StoreOp::kBeat;
  uint32_t key_bytes = 0, value_bytes = 0, zero = 0;
  double timeout_seconds = 0;
};

/// Ahead of a kMeet's value: so many bytes that it says, so many ranks (int32) whose words it wants. Those who
/// have said nothing under this key at the timeout have an empty text in the answer.
struct MeetHead {
  uint32_t text_bytes = 0, ranks = 0;
};

struct StoreAnswer {
  static constexpr int32_t kBeat = -1;  ///< no answer but a sign of life, to who waits or watches
  static constexpr int32_t kMet = -2;   ///< of kMeet: behind its uint32 size, what each of the ranks has said
  int32_t code = 0;                     ///< a Code, whose message is the value; kBeat has none
  uint32_t value_bytes = 0;
};

inline constexpr uint32_t kMostKeyBytes = 256, kMostValueBytes = 64u << 10;
inline constexpr uint32_t kMostAnswerBytes = 16u << 20;  ///< of kMeet

inline constexpr uint32_t kMostKeys = 1u << 20;

inline constexpr const char* kSilenceKey = "silence";  ///< rank 0's silence_seconds, as text
/// Told with kCancelled when rank 0's process leaves the job though nothing is wrong.
inline constexpr const char* kEndedInPeace = "rank 0 has ended";

/// Between two signs of life, where `silence_seconds` without one mean that a process is stopped or cut off.
inline constexpr double kLongestBeat = 1;
inline double beat_seconds(double silence_seconds) {
  return silence_seconds < 4 * kLongestBeat ? silence_seconds / 4 : kLongestBeat;
}

static_assert(std::is_trivially_copyable_v<StoreRequest> && std::is_trivially_copyable_v<StoreAnswer>);

}  // namespace hawser::comm
