// The numbers that identify the tensors of attention's graphs when a graph runs.
#pragma once

#include <stdint.h>

namespace hawser::kernels::cuda::cudnn {

enum Uid : int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kStats,
  kDout,
  kDq,
  kDk,
  kDv,
  kRows,
  kQBegin,
  kKvBegin,
  kOBegin,
  kStatsBegin
};

}  // namespace hawser::kernels::cuda::cudnn
