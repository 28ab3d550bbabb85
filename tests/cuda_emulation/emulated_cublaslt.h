// cuBLASLt's functions over host memory, by plain loops on column-major matrices, to test our calls of that
// library. It is as strict as the real one about types, leading dimensions and requirements of epilogues, and
// overwrites its workspace. On an emulated stream, products run when its other work does.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/cublaslt_library.h"

namespace hawser::cuda_emulation {

const kernels::cuda::CublasLtApi& emulated_cublaslt();

/// Records of calls, and settings for tests. Arrays are indexed by GPU; a value without an index is that of
/// the first GPU.
struct CublasLtRecord {
  static constexpr int kGpus = 4;
  using Numbers = std::array<uint64_t, kGpus>;

  int64_t products = 0, choices = 0, live_objects = 0;
  int64_t codes = 0;                                         ///< number of products of fp8
  int64_t gelu = 0, gelu_gradients = 0, bias_gradients = 0;  ///< numbers of products with this epilogue
  uint32_t reduction_schemes = 0;                            ///< schemes allowed at the last choice
  uint32_t result_alignment = 0;                             ///< alignment at the last choice, in bytes
  Numbers last_algorithm = {};  ///< algorithm of the last product: 0, 1, ... in the order of suggestions
  Numbers algorithms = {};      ///< algorithms that ran: bit 0 for the first suggestion, ...
  Numbers fastest = {};         ///< the algorithm that takes no time
  int suggestions = 1;          ///< number of suggestions
  bool in_devices = false;      ///< emulated devices opened from now on use it
  bool epilogues = true;        ///< true if it supports epilogues with GELU, its gradient or that of a bias
  bool fp8 = true;              ///< true if it multiplies fp8
  bool known = true;            ///< true if it accepts algorithms of other runs
  int matmul_status = 0;        ///< status of the next products
};
CublasLtRecord& cublaslt_record();

}  // namespace hawser::cuda_emulation
