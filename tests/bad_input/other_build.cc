// Other build: a libhawser_text.so whose build id is that of another release.
#include "engine/text/text_module.h"

extern "C" __attribute__((visibility("default"))) const hawser::text::TextModule* hawser_text_module() {
  static const hawser::text::TextModule kModule = [] {
    hawser::text::TextModule module{};
    module.build_id = "0.0.0 some other compiler";
    return module;
  }();
  return &kModule;
}
