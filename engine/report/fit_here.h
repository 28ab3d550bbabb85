// FitHere: a check of whether the ranks of a plan fit this machine, before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/json_fwd.h"
#include "engine/ranks/machine.h"

namespace hawser::train {

/// Memory of one rank, in bytes.
struct RankBytes {
  int64_t device = 0;     ///< device memory: the arena and buffers outside it
  int64_t host = 0;       ///< host memory, including the arena if it is there
  bool in_place = false;  ///< the device's memory is the host's
};

class FitHere {
 public:
  /// `machine` holds the device; null means the CPU.
  FitHere(const RankBytes& rank, int32_t ranks, const DeviceChoice& device, const Machine* machine);

  OrderedJson json() const;
  std::string text() const;

 private:
  int32_t ranks_;
  int64_t needed_, available_ = 0;
  bool one_ = false, all_ = false;
};

}  // namespace hawser::train
