// TeacherConfig: the teacher section of the config, for distillation from the likeliest tokens of another
// model. kernels/include/cross_entropy.h defines the loss, capi/schema/objective.fbs sources and defaults.
#pragma once

#include <cstdint>
#include <string>

namespace hawser::optim {

struct TeacherConfig {
  int64_t top = 0;  ///< ids of each target; 0: no teacher
  double temperature = 1, weight = 1;
  std::string from;  ///< folder of the teacher; empty: the host program pushes its rows
  bool on() const { return top > 0; }
};

void each_key(TeacherConfig& t, auto&& visit) {
  visit("top", t.top);
  visit("temperature", t.temperature);
  visit("weight", t.weight);
  visit("from", t.from);
}

}  // namespace hawser::optim
