// Module loader: opens libhawser_text.so once per process and never closes it.
#pragma once

#include <string>

#include "engine/text/text_module.h"

namespace hawser::text {

/// Returns the module in `folder`, or, if `folder` is "", in hawser-0/ next to the library that contains this
/// code. Throws kUnavailable naming the path and the loader's reason, kAbiMismatch if it was built for
/// another version.
const TextModule& open_text_module(const std::string& folder = "");

}  // namespace hawser::text
