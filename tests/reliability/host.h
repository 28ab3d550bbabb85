// Host: a host program of the C API for the drills: a small model on one or several ranks, and the handles
// that the program holds between its calls.
#pragma once

#include <cstdint>
#include <string>

#include "capi/include/hawser.h"

namespace hawser::testing {

/// The seed of a drill: that of HAWSER_SEED, or a random one. The first call prints it.
uint64_t seed();

/// Fails the test, with the error's message, unless `status` is HWS_OK.
void require(int32_t status, const char* what);

struct Host {
  /// `layers` of the model. `more`: further sections of the config, each followed by a comma.
  explicit Host(int32_t ranks_, int layers = 1, const std::string& more = "");
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::string path(const char* name) const { return folder + "/" + name; }
  int32_t parse() { return hws_config_parse(json.data(), json.size(), HWS_FORMAT_JSON, &config); }
  int32_t create() {
    return ranks > 1 ? hws_engine_create_ranks(config, comm, 0, &engine)
                     : hws_engine_create(config, 0, &engine);
  }
  /// Creates an engine that has taken a step, in which everything that is created once is created.
  void live() {
    require(create(), "create");
    require(hws_engine_train_step(engine, nullptr), "step");
  }

  const int32_t ranks;
  std::string folder, json;
  hws_config* config = nullptr;
  hws_comm* comm = nullptr;
  hws_engine* engine = nullptr;
  hws_buffer* out = nullptr;
};

}  // namespace hawser::testing
