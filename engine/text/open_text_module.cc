#include "engine/text/open_text_module.h"

#include "engine/base/error.h"
#include "engine/base/open_module.h"

namespace hawser::text {

const TextModule& open_text_module(const std::string& folder) {
  const OpenedModule module = open_module(folder, kTextLibrary, kTextEntry);
  if (!module.reason.empty())
    fail(Code::kUnavailable,
         "tokenizers, chat templates and Parquet need {}, which could not be opened: {} ({}); build it with "
         "bash packaging/text_module.sh (in Hawser's source tree), or install the package that "
         "packaging/make.sh made: libhawser-text0 (Debian), libhawser-text (conda), or pip install "
         "--no-index --find-links dist 'hawser-train[text]'",
         kTextLibrary, module.path, module.reason);
  const auto entry = reinterpret_cast<TextEntry>(module.entry);
  require_same_build(module.path, entry != nullptr ? entry()->build_id : nullptr, HAWSER_TEXT_BUILD_ID);
  return *entry();
}

}  // namespace hawser::text
