// Identity module: the interface between the core and libhawser_identity.so, which provides HMAC-SHA256 from
// a system library, as plain structs and C functions. Both sides compare build ids before anything else is
// called.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hawser::comm {

inline constexpr size_t kProofBytes = 32;

struct IdentityModule {
  const char* build_id;
  /// Computes HMAC-SHA256 (RFC 2104, FIPS 180-4) of `data` under `key`.
  void (*prove)(const void* key, size_t key_bytes, const void* data, size_t bytes, uint8_t* proof);
  /// Compares two proofs in constant time; returns 1 if they are equal.
  int32_t (*equal)(const uint8_t* a, const uint8_t* b);
};

inline constexpr const char* kIdentityLibrary = "libhawser_identity.so";
inline constexpr const char* kIdentityEntry = "hawser_identity_module";
/// The module exports: extern "C" const IdentityModule* hawser_identity_module();
using IdentityEntry = const IdentityModule* (*)();

}  // namespace hawser::comm
