// Identity case: provides secrets for tests if libsodium is available.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/comm/identity/handshake.h"

namespace hawser::testing {

inline bool have_secrets() {
  return std::filesystem::exists(std::filesystem::path(HAWSER_MODULE_FOLDER) / comm::kIdentityLibrary);
}

/// Returns a different secret for each `name`.
inline std::shared_ptr<const comm::Secret> secret_of(std::string name) {
  name.resize(comm::Secret::kLeastBytes, '.');
  return std::make_shared<const comm::Secret>(name, HAWSER_MODULE_FOLDER);
}

}  // namespace hawser::testing

#define SKIP_WITHOUT_SECRETS() \
  if (!have_secrets()) GTEST_SKIP() << "libhawser_identity.so is not built (Debian: libsodium-dev)"
