// The contract between the core and libhawser_gloo.so: plain structs, C functions and status codes, no
// exceptions and no types of the C++ library. Both sides compare build ids before anything else is called.
#pragma once

#include <cstdint>

#include "engine/comm/host/host_transport.h"

namespace hawser::comm {

struct GlooRequest {
  int32_t rank = 0, world_size = 1;
  const char* host = "";       ///< own address to bind to; "": chosen by `interface`
  const char* interface = "";  ///< own network interface; "": chosen by `host`
  double timeout_seconds = 60;
  /// The rendezvous store. set copies; get waits until the key is set and writes up to `capacity` bytes. Both
  /// return a status.
  void* store = nullptr;
  int32_t (*set)(void* store, const char* key, const void* data, int64_t bytes) = nullptr;
  int32_t (*get)(void* store, const char* key, void* data, int64_t capacity, int64_t* bytes) = nullptr;
};

struct GlooModule {
  const char* build_id;
  /// Connects all ranks with each other. On failure returns a status and writes up to `error_bytes` of text.
  int32_t (*open)(const GlooRequest* request, HostTransport* transport, char* error, int64_t error_bytes);
};

inline constexpr const char* kGlooLibrary = "libhawser_gloo.so";
inline constexpr const char* kGlooEntry = "hawser_gloo_module";
/// extern "C" const GlooModule* hawser_gloo_module();
using GlooEntry = const GlooModule* (*)();

inline constexpr int64_t kMostGlooAddressBytes = 4 << 20;

}  // namespace hawser::comm
