// A libhawser_gloo.so that says it was built for another release.
#include "engine/comm/gloo/gloo_module.h"

extern "C" __attribute__((visibility("default"))) const hawser::comm::GlooModule* hawser_gloo_module() {
  static constexpr hawser::comm::GlooModule kModule = {"0.0.0 some other compiler", nullptr};
  return &kModule;
}
