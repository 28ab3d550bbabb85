// What clients and the server of the rendezvous store say to each other: a fixed head, then key and value.
// Sizes are bounded, so that a stranger who connects to the port costs neither memory nor the job.
#pragma once

#include <cstdint>
#include <type_traits>

namespace hawser::comm {

enum class StoreOp : uint32_t {
  kHello,     ///< value: Hello. Answered at once; the connection stands for this rank
  kArrived,   ///< answered once all ranks have said hello, or at the timeout with who has not
  kSet,       ///< key, value
  kSetFirst,  ///< sets the key unless it is set; answers with what it holds then
  kGet,       ///< answered once the key is set, or at the timeout
  kAdd,       ///< value: int64; adds to a counter and answers with its new value
  kBye,       ///< this rank leaves in peace; not answered
};

struct StoreRequest {
  static constexpr uint64_t kMark = 0x31726f74732d7768ull;  ///< "hw-stor1"
  uint64_t mark = kMark;
  StoreOp op = StoreOp::kGet;
  uint32_t key_bytes = 0, value_bytes = 0, zero = 0;
  double timeout_seconds = 0;
};

struct StoreAnswer {
  int32_t code = 0;  ///< a Code; the value is the message of an error
  uint32_t value_bytes = 0;
};

struct Hello {
  int32_t rank = 0, world_size = 0;
};

inline constexpr uint32_t kMostKeyBytes = 256, kMostValueBytes = 4u << 20;
inline constexpr uint32_t kMostKeys = 1u << 20;
inline constexpr const char* kFaultKey = "fault";  ///< why the job is broken: int32 code, then the message

static_assert(std::is_trivially_copyable_v<StoreRequest> && std::is_trivially_copyable_v<StoreAnswer>);

}  // namespace hawser::comm
