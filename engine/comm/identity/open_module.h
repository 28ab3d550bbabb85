// Opens libhawser_identity.so once for each process, and never closes it.
#pragma once

#include <string>

#include "engine/comm/identity/identity_module.h"

namespace hawser::comm {

/// Returns the module in `folder`, or, if `folder` is "", in hawser-0/ next to the library that contains this
/// code. Throws kUnavailable with the path and the loader's reason, or kAbiMismatch if it was built for
/// another version.
const IdentityModule& open_identity_module(const std::string& folder);

}  // namespace hawser::comm
