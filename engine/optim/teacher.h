// The teacher section of the config: distillation from the likeliest tokens of another model. The loss is
// that of kernels/include/cross_entropy.h; sources and defaults are those of capi/schema/objective.fbs.
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
