#include "engine/comm/identity/open_module.h"

#include "engine/base/error.h"
#include "engine/base/open_module.h"

namespace hawser::comm {

const IdentityModule& open_identity_module(const std::string& folder) {
  const OpenedModule module = open_module(folder, kIdentityLibrary, kIdentityEntry);
  if (!module.reason.empty())
    fail(Code::kUnavailable,
         "a job's secret needs {} and libsodium, which could not be opened: {} ({}); install Hawser's "
         "identity module, or leave the secret out and set trust_network",
         kIdentityLibrary, module.path, module.reason);
  const auto entry = reinterpret_cast<IdentityEntry>(module.entry);
  require_same_build(module.path, entry != nullptr ? entry()->build_id : nullptr, HAWSER_IDENTITY_BUILD_ID);
  return *entry();
}

}  // namespace hawser::comm
