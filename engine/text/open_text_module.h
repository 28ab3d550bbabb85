// Opens libhawser_text.so, once per process; it is never closed.
#pragma once

#include <string>

#include "engine/text/text_module.h"

namespace hawser::text {

/// The module in `folder`, or, if that is "", in hawser-0/ beside the library that contains this code. Throws
/// kUnavailable naming the path and the loader's reason, kAbiMismatch if it was built for another version.
const TextModule& open_text_module(const std::string& folder = "");

}  // namespace hawser::text
