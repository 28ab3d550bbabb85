#include "engine/comm/gloo/open_module.h"

#include "engine/base/error.h"
#include "engine/base/open_module.h"

namespace hawser::comm {

const GlooModule& open_gloo_module(const std::string& folder) {
  const OpenedModule module = open_module(folder, kGlooLibrary, kGlooEntry);
  if (!module.reason.empty())
    fail(Code::kUnavailable,
         "ranks over TCP need {} and the library libgloo, which could not be opened; tried {} ({}); install "
         "Hawser's Gloo module, or use local ranks or a transport of your own",
         kGlooLibrary, module.path, module.reason);
  const auto entry = reinterpret_cast<GlooEntry>(module.entry);
  require_same_build(module.path, entry != nullptr ? entry()->build_id : nullptr, HAWSER_GLOO_BUILD_ID);
  return *entry();
}

}  // namespace hawser::comm
