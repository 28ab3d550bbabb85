// cuBLASLt's functions over host memory, by plain loops on column-major matrices: what our calls of that
// library are tested with. It is as strict as the real one about types and leading dimensions, and overwrites
// its workspace.
#pragma once

#include <cstdint>

#include "kernels/cuda/cublaslt_library.h"

namespace hawser::cuda_emulation {

const kernels::cuda::CublasLtApi& emulated_cublaslt();

/// What calls left behind, for tests to look at and to set.
struct CublasLtRecord {
  int64_t products = 0, choices = 0, live_objects = 0;
  uint32_t reduction_schemes = 0;  ///< allowed at the last choice
  uint64_t last_algorithm = 0;     ///< of the last product: 0, 1, ... as suggested
  uint64_t fastest = 0;            ///< the one that takes no time
  int suggestions = 1;             ///< how many there are
  bool known = true;               ///< whether algorithms of other runs are taken
  int matmul_status = 0;           ///< what the next products answer
};
CublasLtRecord& cublaslt_record();

}  // namespace hawser::cuda_emulation
