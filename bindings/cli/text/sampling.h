// Sampling: how the commands choose the tokens of a text that a model continues.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "capi/include/hawser.h"

namespace hawser::cli {

struct Sampling {
  double temperature = 1.0, top_p = 1.0;
  int64_t top_k = 0;
  uint64_t seed = 0;

  void write_to(hws_generate_request* request) const {
    request->temperature = temperature;
    request->top_k = top_k;
    request->top_p = top_p;
    request->seed = seed;
  }
};

/// Adds the options of `sampling`, which has their defaults and must outlive the parser.
void add_sampling_options(CLI::App* command, Sampling* sampling);

}  // namespace hawser::cli
