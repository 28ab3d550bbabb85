// Implements libhawser_identity.so with libsodium.
#include <sodium.h>

#include "engine/comm/identity/identity_module.h"

namespace hawser::comm {
namespace {

void prove(const void* key, size_t key_bytes, const void* data, size_t bytes, uint8_t* proof) {
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, static_cast<const unsigned char*>(key), key_bytes);
  crypto_auth_hmacsha256_update(&state, static_cast<const unsigned char*>(data), bytes);
  crypto_auth_hmacsha256_final(&state, proof);
  sodium_memzero(&state, sizeof(state));
}

int32_t equal(const uint8_t* a, const uint8_t* b) { return sodium_memcmp(a, b, kProofBytes) == 0 ? 1 : 0; }

static_assert(kProofBytes == crypto_auth_hmacsha256_BYTES);
constexpr IdentityModule kModule = {HAWSER_IDENTITY_BUILD_ID, &prove, &equal};

}  // namespace
}  // namespace hawser::comm

extern "C" __attribute__((visibility("default"))) const hawser::comm::IdentityModule*
hawser_identity_module() {
  return &hawser::comm::kModule;
}
