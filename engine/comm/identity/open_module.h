// Opens libhawser_identity.so, once per process; it is never closed.
#pragma once

#include <string>

#include "engine/comm/identity/identity_module.h"

namespace hawser::comm {

/// The module in `folder`, or, if that is "", in hawser-0/ beside the library that contains this code. Throws
/// kUnavailable naming the path and the loader's reason, kAbiMismatch if it was built for another version.
const IdentityModule& open_identity_module(const std::string& folder);

}  // namespace hawser::comm
