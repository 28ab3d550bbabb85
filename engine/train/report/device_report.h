// What this machine and this library are: the devices there are and how fast the host computes. No engine is
// needed.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/dtype.h"

namespace hawser::train {

/// hws_device_list, hws_device_measure, hws_device_peak, hws_library_info. threads, seconds 0: a choice of ours.
std::string device_list_json();
std::string device_measure_json(int32_t threads, double seconds);
double device_peak_flops(int32_t threads, DType type, double seconds);
std::string library_info_json();

}  // namespace hawser::train
