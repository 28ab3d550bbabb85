// Whether the ranks of a plan fit this machine, told before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/json.h"
#include "engine/train/ranks/machine.h"

namespace hawser::train {

/// Bytes of one rank.
struct RankBytes {
  int64_t device = 0;     ///< of the arena and what lies beside it
  int64_t host = 0;       ///< in all, the arena included where it lies there
  bool in_place = false;  ///< the device's memory is the host's
};

class FitHere {
 public:
  /// `machine`: with the device; null: the CPU.
  FitHere(const RankBytes& rank, int32_t ranks, const DeviceChoice& device, const Machine* machine);

  OrderedJson json() const;
  std::string text() const;

 private:
  int32_t ranks_;
  int64_t needed_, available_ = 0;
  bool one_ = false, all_ = false;
};

}  // namespace hawser::train
