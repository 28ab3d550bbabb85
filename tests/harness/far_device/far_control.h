// Controls and counters of the far-memory plugin for tests; they are not part of the plugin interface.
#pragma once

#include <atomic>
#include <cstdint>

namespace hawser::testing {

/// The settings apply to all far devices of the process.
struct FarControl {
  std::atomic<bool> cannot_capture{false};        ///< every capture ends in an error
  std::atomic<int64_t> captures_left{INT64_MAX};  ///< every later capture ends in an error
  std::atomic<bool> fails_captured_fetch{false};  ///< a captured copy to the host fails
  std::atomic<bool> fails_launch{false};          ///< launching a graph fails
  std::atomic<bool> shares_memory{false};         ///< work of each device may use the memory of all devices
  std::atomic<bool> has_no_peer_memory{false};    ///< links can register no memory
  std::atomic<int64_t> cannot_register{-1};       ///< the links of this device fail to register
  std::atomic<int64_t> registered{0};             ///< number of ranges that are registered now
  /// number of messages from or to memory that the link has not registered, although it has registered some
  std::atomic<int64_t> outside_registered{0};
  /// number of kernels, copies, fills and launches that the host submitted
  std::atomic<int64_t> given{0};
  std::atomic<int64_t> captures{0}, launches{0}, graphs{0};  ///< graphs: number that exist now
};

FarControl& far_control();  ///< the plugin's object; other programs find it by hawser_far_control()

}  // namespace hawser::testing
