// cuBLASLt's functions over host memory, by plain loops on column-major matrices, to test our calls of that
// library. It is as strict as the real one about types, leading dimensions and requirements of epilogues, and
// overwrites its workspace. On an emulated stream products run when its other work does.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/cublaslt_library.h"

namespace hawser::cuda_emulation {

const kernels::cuda::CublasLtApi& emulated_cublaslt();

/// Records of calls, and settings for tests. Arrays are indexed by GPU; without an index it is the first.
struct CublasLtRecord {
  static constexpr int kGpus = 4;
  using Numbers = std::array<uint64_t, kGpus>;

  int64_t products = 0, choices = 0, live_objects = 0;
  int64_t gelu = 0, gelu_gradients = 0, bias_gradients = 0;  ///< of the products, with such an epilogue
  uint32_t reduction_schemes = 0;                            ///< allowed at the last choice
  uint32_t result_alignment = 0;                             ///< likewise, in bytes
  Numbers last_algorithm = {};                               ///< of the last product: 0, 1, ... as suggested
  Numbers algorithms = {};  ///< that ran: bit 0 for the first suggestion, ...
  Numbers fastest = {};     ///< the one that takes no time
  int suggestions = 1;      ///< how many there are
  bool in_devices = false;  ///< opened emulated devices use it
  bool epilogues = true;    ///< whether it supports epilogues with GELU, its gradient or that of a bias
  bool known = true;        ///< whether it accepts algorithms of other runs
  int matmul_status = 0;    ///< status of the next products
};
CublasLtRecord& cublaslt_record();

}  // namespace hawser::cuda_emulation
