// A libhawser_identity.so that reports the build id of another release.
#include "engine/comm/identity/identity_module.h"

extern "C" __attribute__((visibility("default"))) const hawser::comm::IdentityModule*
hawser_identity_module() {
  static constexpr hawser::comm::IdentityModule kModule = {"0.0.0 some other compiler", nullptr, nullptr};
  return &kModule;
}
