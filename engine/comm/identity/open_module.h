// Opens libhawser_identity.so, once for the process, and never closes it.
#pragma once

#include <string>

#include "engine/comm/identity/identity_module.h"

namespace hawser::comm {

/// The module in `folder`, or, if that is "", in hawser-0/ beside the library that this code is in. Throws
/// kUnavailable naming the path tried and the loader's reason, kAbiMismatch if it was built for another
/// version.
const IdentityModule& open_identity_module(const std::string& folder);

}  // namespace hawser::comm
