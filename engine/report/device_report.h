// Reports on this machine and this library: the available devices, and how fast the host computes. They need
// no engine.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/dtype.h"

namespace hawser::train {

/// Implements hws_device_list, hws_device_measure, hws_device_peak and hws_library_info. For threads and
/// seconds, 0 selects a default.
std::string device_list_json();
std::string device_measure_json(int32_t threads, double seconds);
double device_peak_flops(int32_t threads, DType type, double seconds);
std::string library_info_json();

}  // namespace hawser::train
