// Opens libhawser_gloo.so, once for the process, and never closes it.
#pragma once

#include <string>

#include "engine/comm/gloo/gloo_module.h"

namespace hawser::comm {

/// The module in `folder`, or, if that is "", in hawser-0/ beside the library that this code is in. Throws
/// kUnavailable naming the paths tried and the loader's reason, kAbiMismatch if it was built for another
/// version.
const GlooModule& open_gloo_module(const std::string& folder);

}  // namespace hawser::comm
